/**
 * Reads a whole number of the command line.
 *
 * @throws Error that names the flag and its bounds
 */
export function whole(flag: string, text: string, min: number, max: number): number {
  const value = Number(text);
  if (Number.isInteger(value) && value >= min && value <= max) return value;
  throw new Error(`--${flag} is a whole number from ${min} to ${max}, not "${text}"`);
}
