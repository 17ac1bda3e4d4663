import { setGlobalProxyFromEnv } from 'node:http';

/**
 * Sends the requests of `fetch` through the proxy in HTTPS_PROXY or HTTP_PROXY, if set, except to hosts in NO_PROXY.
 * @throws Error if the proxy is not a URL
 */
export function useProxyOfEnv(): void {
  try {
    setGlobalProxyFromEnv();
  } catch {
    // Node's message contains the URL, which may have a password.
    throw new Error('HTTPS_PROXY and HTTP_PROXY must be URLs, such as http://proxy.example:3128');
  }
}
