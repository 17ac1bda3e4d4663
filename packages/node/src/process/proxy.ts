import { setGlobalProxyFromEnv } from 'node:http';

const THIS_MACHINE = ['localhost', '127.0.0.1', '[::1]'];

/**
 * Sends the requests of `fetch` through the proxy in HTTPS_PROXY or HTTP_PROXY, if it is set, except to this machine and to
 * the hosts in NO_PROXY, as Node reads it. @throws Error if Node cannot use the proxy
 */
export function useProxyFromEnv(env: NodeJS.ProcessEnv): void {
  const noProxy = env.no_proxy || env.NO_PROXY || '';
  if (noProxy === '*') return; // in a list, Node reads it as a name
  try {
    setGlobalProxyFromEnv({ ...env, no_proxy: [noProxy, ...THIS_MACHINE].join() });
  } catch {
    // The message of Node may have a password.
    throw new Error(
      'HTTPS_PROXY and HTTP_PROXY must be URLs of proxies, such as http://proxy.example:3128, or empty',
    );
  }
}
