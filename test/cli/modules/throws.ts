throw new Error("the customer service needs CUSTOMER_URL");
