/** The rule for a URL, for messages. */
export const URL_RULE = 'an http or https URL without user, query and fragment';

/** Parses a URL as a base for paths, without a slash at its end; undefined if it is malformed. */
export function parseHttpUrl(text: string): string | undefined {
  const url = URL.parse(text);
  if (!url || !/^https?:$/.test(url.protocol)) return undefined;
  return url.username + url.password + url.search + url.hash === ''
    ? url.href.replace(/\/+$/, '')
    : undefined;
}
