/**
 * Other forms of a statement's placeholders. Every `$n` occurs once and in order (a test walks all
 * statements), so each form is made by cutting the text at them.
 */

const cut = (text: string): string[] => text.split(/\$\d+/);

/** As the strings of a tagged template, for layers that build queries by a tag. */
export function templateOf(text: string): TemplateStringsArray {
  const parts = cut(text);
  return Object.freeze(Object.assign(parts, { raw: Object.freeze([...parts]) }));
}

/** With `?` for every placeholder, and a literal `?` escaped, as Knex and MikroORM read it. */
export function questionMarksOf(text: string): string {
  return cut(text)
    .map((part) => part.replaceAll("?", "\\?"))
    .join("?");
}
