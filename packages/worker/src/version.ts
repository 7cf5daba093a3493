/** Version of this package, as its presence row shows it; the release script and a test keep it. */
export const packageVersion = "0.1.0";
