import type { TokenRejection } from './auth.ts';

/** A request that has ended. `route`: the pattern of its path, if any; `status`: undefined without a response. */
export type ClosedRequest = {
  method: string;
  route: string | undefined;
  status: number | undefined;
  seconds: number;
};

/** Observes a server, for metrics. Its methods must not throw. */
export type ServerObserver = {
  onRequest(request: ClosedRequest): void;
  onTokenRejected(reason: TokenRejection): void;
};
