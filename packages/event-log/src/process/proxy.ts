import { setGlobalProxyFromEnv } from 'node:http';
import { isIPv6 } from 'node:net';

const THIS_MACHINE = ['localhost', '127.0.0.1', '[::1]'];
const PORTS: Record<string, string> = { 'http:': '80', 'https:': '443' };
/** A host, and everything below its name, with or without a port. */
const NO_PROXY_ENTRY = /^(?:\*?\.)?(\[[\da-f:]+\]|[^\s:/*[\]]*[^\s:/*[\].])(?::(\d+))?$/i;
const IP_RANGE = /^[\d.]+-[\d.]+$/;

/**
 * Sends the requests of `fetch` through the proxy in HTTPS_PROXY or HTTP_PROXY, if it is set, except to the hosts in
 * NO_PROXY and to this machine. `urls` are all that the process requests. @throws Error if one of them would go through
 * a proxy, and Node does not support the value of a variable
 */
export function useProxyFromEnv(env: NodeJS.ProcessEnv, urls: readonly string[]): void {
  const http = env.http_proxy || env.HTTP_PROXY;
  const https = env.https_proxy || env.HTTPS_PROXY;
  const list = (env.no_proxy || env.NO_PROXY || '').split(/[\s,]+/).filter((entry) => entry !== '');
  const noProxy = [...list, ...THIS_MACHINE];
  /** Whether requests of this protocol are not exempt. */
  const isProxied = (protocol: string): boolean =>
    urls
      .map((url) => new URL(url))
      .some((url) => url.protocol === protocol && !noProxy.some((entry) => isOf(url, entry)));
  const used = {
    HTTP_PROXY: isProxied('http:') || (!https && isProxied('https:')) ? http : undefined,
    HTTPS_PROXY: isProxied('https:') ? https : undefined,
  };
  if (list.includes('*') || !(used.HTTP_PROXY || used.HTTPS_PROXY)) return;
  for (const [name, proxy] of Object.entries(used))
    if (proxy && !/^https?:$/.test(URL.parse(proxy)?.protocol ?? ''))
      throw new Error(`${name} must be the URL of a proxy, such as http://proxy.example:3128`); // it may have a password
  const unsupported = list.find((entry) => !parseEntry(entry));
  if (unsupported !== undefined)
    throw new Error(
      `NO_PROXY must have hosts such as login.example, .example, 10.0.0.1 or 10.0.0.1:443, or *; not ${JSON.stringify(unsupported)}`,
    );
  setGlobalProxyFromEnv({ ...used, NO_PROXY: noProxy.join() });
}

/** Whether a URL is of an entry of NO_PROXY. */
function isOf(url: URL, entry: string): boolean {
  const { host, port } = parseEntry(entry) ?? {};
  if (host === undefined) return false;
  const isPort = port === undefined || port === (url.port || PORTS[url.protocol]);
  return isPort && `.${url.hostname.replace(/[[\]]/g, '')}`.endsWith(`.${host}`);
}

/** The lower-case host without brackets, and the port; undefined if Node does not support the entry. */
function parseEntry(entry: string): { host: string; port?: string | undefined } | undefined {
  const [, host, port] = isIPv6(entry) ? [entry, entry] : (NO_PROXY_ENTRY.exec(entry) ?? []);
  if (host === undefined || IP_RANGE.test(host)) return undefined;
  return { host: host.replace(/[[\]]/g, '').toLowerCase(), port };
}
