import { setGlobalProxyFromEnv } from 'node:http';

const LOOPBACK = 'localhost,127.0.0.1,[::1]';

/**
 * Sends the requests of `fetch` through the proxy in HTTPS_PROXY or HTTP_PROXY, if it is set, except to the hosts in
 * NO_PROXY and to this machine. @throws Error if the proxy is not a URL
 */
export function useProxyFromEnv(env: NodeJS.ProcessEnv): void {
  const noProxy = [env.no_proxy ?? env.NO_PROXY ?? '', LOOPBACK].join(',');
  try {
    setGlobalProxyFromEnv({ ...env, no_proxy: noProxy, NO_PROXY: noProxy });
  } catch {
    // The message of Node contains the URL, which may have a password.
    throw new Error('HTTPS_PROXY and HTTP_PROXY must be URLs, such as http://proxy.example:3128');
  }
}
