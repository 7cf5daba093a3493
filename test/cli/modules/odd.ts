export const worker = 42;
