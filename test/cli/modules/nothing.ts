export const handlers = 1;
export const other = 2;
