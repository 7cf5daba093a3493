export const worker = () => undefined;
