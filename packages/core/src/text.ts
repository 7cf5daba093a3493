/**
 * Cleaning of text that is stored or shown: error messages come from anywhere, and PostgreSQL
 * refuses NUL, JSON refuses lone surrogates, and terminals obey escape sequences.
 */

const ansi = /\u001b(?:\[[0-?]*[ -/]*[@-~]|[@-Z\\-_])/g;
const control = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g;
const credentials = /\b([a-z][a-z0-9+.-]*:\/\/)[^\s/@:]*(?::[^\s/@]*)?@/gi;

/**
 * Text fit to store and show: at most `maxLength` UTF-16 units, no NUL, control character, escape
 * sequence or lone surrogate, and no credentials inside URLs.
 */
export function cleanText(text: string, maxLength: number): string {
  // Cut before the replacements (a 10 MB message must not cost 10 MB of work), and again after.
  const cut = text.slice(0, maxLength * 2);
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
