/**
 * Cleaning of text that is stored or shown: error messages come from anywhere, and PostgreSQL
 * refuses NUL, JSON refuses lone surrogates, and terminals obey escape sequences.
 */

const ansi = /\u001b(?:\[[0-?]*[ -/]*[@-~]|[@-Z\\-_])/g;
// Control characters but for tab and line feed, and the marks that reverse the reading direction.
const control = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g;
// Up to the last "@", since passwords hold "@" and "/" unescaped; a port is no password. The bounds
// keep the time linear on any text.
const credentials =
  /\b([a-z][a-z0-9+.-]{0,30}:\/\/)[^\s/?#@:"'<>]{0,200}(?::(?!\d{1,5}(?:[/?#\s"'<>]|$))[^\s"'<>]{0,300})?@/gi;
const cutCredentials = /(:\/\/)[^\s@"'<>]*$/;

/**
 * Text fit to store and show: at most `maxLength` UTF-16 units, no NUL, control character, escape
 * sequence or lone surrogate, and no credentials inside URLs.
 */
export function cleanText(text: string, maxLength: number): string {
  // Cut before the replacements (a 10 MB message must not cost 10 MB of work), and again after.
  const limit = maxLength * 2;
  const cut = text.length <= limit ? text : text.slice(0, limit).replace(cutCredentials, "$1***");
  const clean = cut
    .replace(ansi, "")
    .replace(control, " ")
    .replace(credentials, "$1***@")
    .toWellFormed();
  return clean.length <= maxLength ? clean : `${clean.slice(0, maxLength - 1).toWellFormed()}…`;
}

/** A URL with its user and password masked, fit for logs; anything else is masked whole. */
export function redactUrl(url: string): string {
  try {
    const parsed = new URL(url);
    if (parsed.username !== "") parsed.username = "***";
    if (parsed.password !== "") parsed.password = "***";
    for (const name of parsed.searchParams.keys()) {
      if (/pass|secret|token|key/i.test(name)) parsed.searchParams.set(name, "***");
    }
    return parsed.toString();
  } catch {
    return "(not a URL)";
  }
}
