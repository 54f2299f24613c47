/**
 * Where a text stops being JSON: the offset of the first character that cannot
 * stand there. The engines word their errors differently, and the one of WebKit
 * says no place at all; so a text that did not parse is walked once more.
 */
export function firstError(text: string): number {
  let at = 0;

  /** Each step returns whether it could go on; `at` stays where it could not. */
  const space = (): void => {
    while (/[ \t\r\n]/.test(text[at] ?? '')) at++;
  };
  const char = (expected: string): boolean => {
    space();
    if (text[at] !== expected) return false;
    at++;
    return true;
  };
  const token = (pattern: RegExp): boolean => {
    pattern.lastIndex = at;
    const found = pattern.exec(text);
    if (!found) return false;
    at += found[0].length;
    return true;
  };
  const string = (): boolean => {
    space();
    return token(/"(?:[^"\\\u0000-\u001F]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/y);
  };
  const members = (close: string, member: () => boolean): boolean => {
    space();
    if (char(close)) return true;
    do {
      if (!member()) return false;
    } while (char(','));
    return char(close);
  };
  const value = (): boolean => {
    space();
    if (text[at] === '{') {
      at++;
      return members('}', () => string() && char(':') && value());
    }
    if (text[at] === '[') {
      at++;
      return members(']', value);
    }
    if (text[at] === '"') return string();
    return token(/-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null/y);
  };

  if (value()) space();
  return at;
}
