/** Value of an environment variable that this process cannot do without. */
export function required(name: string): string {
  const value = process.env[name];
  if (value === undefined || value === "") {
    throw new Error(`Cannot start: ${name} is not set. See the README of this example.`);
  }
  return value;
}
