/** Version of this package, as its presence row shows it; a test compares it with package.json. */
export const packageVersion = "0.1.0";
