import type { Appended, BackwardRange, Batch, Page, Position, RecordedEvent } from '../eventStore.ts';

// The messages between the adapter and the thread that holds @eventstore/db-client.

export type WorkerOptions = { url: string; prefix: string };

/** The operations of the thread: one argument, one result. */
export type Operations = {
  append(event: {
    stream: string;
    id: string;
    type: string;
    data: string;
    metadata: string;
    expectedRevision: bigint;
  }): Appended;
  readStream(of: { stream: string; limit: number }): RecordedEvent[];
  /** The first, or the last, event of $all; undefined if there is none. */
  readEdge(edge: 'first' | 'last'): RecordedEvent | undefined;
  /** The event of $all at this position; undefined if there is none. */
  readAt(position: Position): RecordedEvent | undefined;
  /** A page of the streams with the prefix. */
  readPage(range: { after: Position; limit: number }): Page;
  /** The same, newest event first. */
  readPageBackwards(range: BackwardRange): Page;
  subscribe(to: { subscription: number; after: Position; prefix: string }): void;
  /** The next batch of a subscription, as soon as there is one. */
  next(subscription: number): Batch;
  unsubscribe(subscription: number): void;
};

export type Call = { id: number; operation: keyof Operations; argument: unknown };

export type Reply = { id: number; value?: unknown; failure?: Failure };

/** The first message has no replies: the thread has started. `node`: the address of the node that has responded to the last read: the leader of a cluster. */
export type Replies = { replies: Reply[]; node: string | undefined };

/** Why a call failed, and what to do. */
export type Failure = {
  kind:
    | 'wrongRevision'
    /** There is no event at the position. */
    | 'positionNotFound'
    /** The stream exists, and its first event was deleted. */
    | 'streamDeleted'
    /** Retrying does not help. */
    | 'permanent'
    /** The server refuses the account, or its certificate is not trusted. */
    | 'accessDenied'
    /** The server does not allow the account to append. */
    | 'appendDenied'
    /** Retry. */
    | 'transient'
    /** Retry: the client now connects to the leader. */
    | 'notLeader'
    /** Retry: the client opens a new channel. */
    | 'unavailable'
    /** Retry over a new connection: the client may be in a broken state. */
    | 'connectionBroken'
    /** No reply yet: the outcome is unknown. */
    | 'timeout';
  message: string;
};
