import type { TokenRejection } from './auth.ts';

/**
 * A request that has ended. `route`: the pattern of its path, if any; `status`: undefined if none was sent.
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
