import { sleep } from '../time/sleep.ts';
import { Connection, FIRST_REPLY_TIMEOUT_MS } from './connection.ts';
import type { CallFailed } from './protocol.ts';
import { AccessDenied, type RetryingClient } from './retryingClient.ts';

/** A server that has just started may not know its accounts before. */
export const ACCOUNTS_TIMEOUT_MS = 5_000;
export const ACCESS_RETRY_INTERVAL_MS = 500;

/** Checks the account and the certificate of the server. One that is unavailable passes. @throws AccessDenied */
export async function checkAccess(client: RetryingClient): Promise<void> {
  const denied = await lastDenial(() => accessError(client), client.closed);
  if (denied) throw new AccessDenied(denied.message, { cause: denied });
}

/** The failure of a check that is repeated while a server that has just started may not know its accounts. */
export async function lastDenial(
  check: () => Promise<CallFailed | undefined>,
  closed: AbortSignal,
): Promise<CallFailed | undefined> {
  const deadline = performance.now() + ACCOUNTS_TIMEOUT_MS;
  for (;;) {
    const failure = await check();
    if (!failure || failure.kind === 'badConnectionString' || closed.aborted) return failure;
    if (performance.now() >= deadline) return failure;
    await sleep(ACCESS_RETRY_INTERVAL_MS, closed);
  }
}

async function accessError({ connection, options }: RetryingClient): Promise<CallFailed | undefined> {
  const failure = await readFailure(connection);
  if (!failure || failure.kind === 'accessDenied' || failure.kind === 'badConnectionString') return failure;
  // Discovery of a cluster hides why a node does not respond.
  const firstNode = options.url.replace(/(\/\/(?:[^@]*@)?[^@,/?]+),[^/?]+/, '$1');
  if (firstNode === options.url) return undefined;
  const node = new Connection({ ...options, url: firstNode.replace('+discover', '') });
  const failureOfNode = await readFailure(node);
  node.end('the access check is done');
  return failureOfNode?.kind === 'accessDenied' ? failureOfNode : undefined;
}

/** Why nothing can be read. It may take the time until the thread has started, and until its first reply. */
function readFailure(connection: Connection): Promise<CallFailed | undefined> {
  return connection.call('readEdge', 'first', 2 * FIRST_REPLY_TIMEOUT_MS).then(
    () => undefined,
    (error: CallFailed) => error,
  );
}
