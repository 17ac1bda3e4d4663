import type { TokenRejection } from './auth.ts';

/**
 * A request whose response is sent, or whose client has disconnected. `route` is the pattern of its path, undefined if
 * it has no route; `status` is undefined if no response was begun.
 */
export type ClosedRequest = {
  method: string;
  route: string | undefined;
  status: number | undefined;
  seconds: number;
};

/** Gets what happens in a server, for metrics. It must not throw. */
export type ServerObserver = {
  onRequest(request: ClosedRequest): void;
  onTokenRejected(reason: TokenRejection): void;
};
