/**
 * Cuts the parts out of a JSON text, byte for byte. Formats that wrap the payload (NestJS, Celery,
 * CloudEvents) are unwrapped this way and never by parsing and writing again, which would round
 * 12345678901234567890, turn 1e400 into null and -0.0 into 0.
 *
 * All functions need a text that JSON.parse accepts.
 */

const quote = 0x22;
const backslash = 0x5c;
const comma = 0x2c;
const colon = 0x3a;

const isOpening = (c: number): boolean => c === 0x5b || c === 0x7b;
const isClosing = (c: number): boolean => c === 0x5d || c === 0x7d;
const isSpace = (c: number): boolean => c === 0x20 || c === 0x0a || c === 0x0d || c === 0x09;

function skipSpace(text: string, from: number): number {
  let at = from;
  while (at < text.length && isSpace(text.charCodeAt(at))) at += 1;
  return at;
}

function endOfString(text: string, from: number): number {
  let at = from + 1;
  while (at < text.length && text.charCodeAt(at) !== quote) {
    at += text.charCodeAt(at) === backslash ? 2 : 1;
  }
  return at + 1;
}

function endOfNested(text: string, from: number): number {
  let depth = 0;
  let at = from;
  while (at < text.length) {
    const c = text.charCodeAt(at);
    if (c === quote) {
      at = endOfString(text, at);
      continue;
    }
    if (isOpening(c)) depth += 1;
    else if (isClosing(c)) depth -= 1;
    at += 1;
    if (depth === 0) break;
  }
  return at;
}

function endOfValue(text: string, from: number): number {
  const first = text.charCodeAt(from);
  if (first === quote) return endOfString(text, from);
  if (isOpening(first)) return endOfNested(text, from);
  let at = from;
  for (; at < text.length; at += 1) {
    const c = text.charCodeAt(at);
    if (c === comma || isClosing(c) || isSpace(c)) break;
  }
  return at;
}

/** The values of a JSON object's keys as their own texts; of a key given twice the last. */
export function memberTexts(text: string): ReadonlyMap<string, string> {
  const members = new Map<string, string>();
  let at = skipSpace(text, skipSpace(text, 0) + 1);
  while (at < text.length && text.charCodeAt(at) === quote) {
    const keyEnd = endOfString(text, at);
    const key: unknown = JSON.parse(text.slice(at, keyEnd));
    const colonAt = skipSpace(text, keyEnd);
    if (text.charCodeAt(colonAt) !== colon) break;
    const start = skipSpace(text, colonAt + 1);
    const end = endOfValue(text, start);
    members.set(String(key), text.slice(start, end));
    at = skipSpace(text, skipSpace(text, end) + 1);
  }
  return members;
}

/** The elements of a JSON array as their own texts. */
export function elementTexts(text: string): readonly string[] {
  const elements: string[] = [];
  let at = skipSpace(text, skipSpace(text, 0) + 1);
  while (at < text.length && !isClosing(text.charCodeAt(at))) {
    const end = endOfValue(text, at);
    elements.push(text.slice(at, end));
    at = skipSpace(text, end);
    if (text.charCodeAt(at) !== comma) break;
    at = skipSpace(text, at + 1);
  }
  return elements;
}
