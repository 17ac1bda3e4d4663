import { setImmediate } from 'node:timers/promises';
import gossipService from '@eventstore/db-client/generated/gossip_grpc_pb.js';
import type { ClusterInfo } from '@eventstore/db-client/generated/gossip_pb.js';
import featuresService from '@eventstore/db-client/generated/serverfeatures_grpc_pb.js';
import type { SupportedMethods } from '@eventstore/db-client/generated/serverfeatures_pb.js';
import streamsService from '@eventstore/db-client/generated/streams_grpc_pb.js';
import type { BatchAppendReq, BatchAppendResp, ReadReq } from '@eventstore/db-client/generated/streams_pb.js';
import {
  type Metadata,
  Server,
  ServerCredentials,
  type ServerDuplexStream,
  type ServerUnaryCall,
  type sendUnaryData,
  status,
} from '@grpc/grpc-js';
import { type EventToWrite, type FakeEvent, FakeLog, type ProposedEvent } from './log.ts';
import {
  type AppendOutcome,
  accessDenied,
  batchResponse,
  CallError,
  clusterInfo,
  type Endpoint,
  expectedRevision,
  MAX_APPEND_SIZE,
  type Member,
  notLeader,
  proposedEvent,
  streamName,
  streamNotFound,
  supportedMethods,
  type Version,
} from './messages.ts';
import { EventStoreDbPort } from './port.ts';
import { Feed, pausing, positionIn, type ReadCall, read, type Served, subscription } from './reads.ts';

export { type EventToWrite, type FakeEvent, FakeLog } from './log.ts';
export type { Endpoint, Member } from './messages.ts';

export type FakeOptions = {
  /** A free port by default. */
  port?: number;
  /** Shared by the nodes of a cluster. */
  log?: FakeLog;
  /** 23.10 by default. Versions differ in the error for a position where no event starts. */
  version?: Version;
  /** Names and passwords; no access control by default. Clients send credentials over TLS only. */
  users?: Record<string, string>;
  /** PEM. */
  tls?: { key: string; cert: string };
};

export type Drop = 'end' | 'slow' | 'cancelled' | 'unavailable' | 'reset' | 'internal' | 'notLeader';

type Append = { stream: string; expected: bigint; proposed: ProposedEvent };
/** Undefined if there is no response to the append. */
type Failure = (store: () => AppendOutcome) => AppendOutcome | undefined;

const SLOW =
  'Operation timed out: Consumer too slow to handle event while live. Client resubscription required.';
const DROPS = {
  slow: new CallError(status.ABORTED, SLOW),
  cancelled: new CallError(status.CANCELLED, 'Operation was cancelled'),
  unavailable: new CallError(status.UNAVAILABLE, 'Server Is Not Ready'),
  internal: new CallError(status.INTERNAL, 'Received RST_STREAM with code 2 (Internal server error)'),
};

/** A fake server with EventStoreDB's gRPC protocol over a log in memory, which can inject failures. */
export class FakeEventStoreDb {
  readonly log: FakeLog;
  /**
   * Counters of calls. `appended`: appends that stored an event. `cancelled`: reads that the client cancelled, or whose
   * connection broke. `sent`: the events of reads.
   */
  readonly calls = { appended: 0, read: 0, cancelled: 0, sent: 0, subscribe: 0 };
  /** Users who may read but not append. */
  readonly readers = new Set<string>();
  /** Whether a call for appends keeps the rights that its user had at the start of the call. */
  keepsRights = false;
  /** Streams whose ACL allows no one to append. */
  readonly protectedStreams = new Set<string>();
  /** The streams to which appends were refused. */
  readonly denied: string[] = [];
  /** The members of the cluster that gossip returns; this server alone by default. */
  members: Member[] | undefined;
  /** The positions after which subscriptions started; 0 is the start of the log. */
  readonly subscribedAfter: bigint[] = [];

  readonly #options: FakeOptions;
  readonly #served: Served;
  readonly #listener: EventStoreDbPort;
  readonly #subscriptions = new Set<Feed>();
  readonly #reads = new Set<Feed>();
  readonly #batches = new Set<unknown>();
  readonly #responses: { due: number; send: () => void; timer: NodeJS.Timeout }[] = [];
  /** Injected failures that have not occurred yet, by kind of call. */
  readonly #failures = {
    appends: [] as Failure[],
    features: [] as CallError[],
    reads: [] as CallError[],
    /** Calls are redirected to these leaders. */
    leaders: [] as Endpoint[],
  };
  #port: number;
  #latency = 0;
  #indexLag = 0;
  /** The number of further reads that do not find a stream. */
  readonly #notIndexed = new Map<string, number>();
  #heldAfter = Number.POSITIVE_INFINITY;
  #readsPauseAfter: number | undefined;

  private constructor(options: FakeOptions) {
    const { log = new FakeLog(), version = '23.10', port = 0, tls } = options;
    this.log = log;
    this.#served = { log, version, heldAfter: () => this.#heldAfter };
    this.#options = options;
    this.#port = port;

    const maxMessage = 17 * 1_024 * 1_024;
    const grpc = new Server({ 'grpc.max_receive_message_length': maxMessage, 'grpc.enable_channelz': 0 });
    grpc.addService(featuresService.ServerFeaturesService, { getSupportedMethods: this.#features });
    grpc.addService(gossipService.GossipService, { read: this.#gossip });
    grpc.addService(streamsService.StreamsService, {
      batchAppend: this.#batchAppend,
      read: this.#read,
    });
    const keys = tls && [{ private_key: Buffer.from(tls.key), cert_chain: Buffer.from(tls.cert) }];
    const injector = grpc.createConnectionInjector(
      keys ? ServerCredentials.createSsl(null, keys) : ServerCredentials.createInsecure(),
    );
    this.#listener = new EventStoreDbPort((connection) => injector.injectConnection(connection));
  }

  static async start(options: FakeOptions = {}): Promise<FakeEventStoreDb> {
    const fake = new FakeEventStoreDb(options);
    await fake.restart();
    return fake;
  }

  get port(): number {
    return this.#port;
  }

  get url(): string {
    const { address, port } = this.#endpoint;
    return `esdb://${address}:${port}?tls=${this.#options.tls !== undefined}`;
  }

  get #endpoint(): Endpoint {
    return { address: this.#options.tls ? 'localhost' : '127.0.0.1', port: this.#port };
  }

  /** The number of accepted connections. */
  get connections(): number {
    return this.#listener.connections;
  }

  get openSubscriptions(): number {
    return this.#subscriptions.size;
  }

  get openReads(): number {
    return this.#reads.size;
  }

  /** The number of injected failures that have not occurred yet. */
  get failuresLeft(): number {
    return Object.values(this.#failures).flat().length;
  }

  /** Stops like a killed process; the log is kept. */
  async stop(): Promise<void> {
    for (const { timer } of this.#responses.splice(0)) clearTimeout(timer);
    await this.#listener.close();
    // The calls end some turns of the event loop later.
    while (this.#batches.size + this.openReads + this.openSubscriptions > 0) await setImmediate();
  }

  /** Listens again, on the same port and with the same log. */
  async restart(): Promise<void> {
    this.#port = await this.#listener.listen(this.#port);
  }

  /**
   * Removes all events except the first when no call reads the log, and writes one to another stream, so that the log
   * does not end earlier. Clients subscribe again; connections stay open.
   */
  async clear(): Promise<void> {
    while (this.openReads > 0) await setImmediate();
    const { openSubscriptions } = this;
    this.log.clear();
    this.log.append('cleared');
    this.dropSubscriptions('end');
    while (this.openSubscriptions < openSubscriptions) await setImmediate();
  }

  /** Freezes like a stopped process (SIGSTOP): accepts connections and bytes, but does not respond until thawed. */
  freeze(): void {
    this.#listener.freeze();
  }

  thaw(): void {
    this.#listener.thaw();
  }

  /** The next appends are stored, but without a response; their calls stay open. */
  loseResponses(count: number): void {
    this.#failNextAppends(count, (store) => void store());
  }

  /** The next appends are stored; instead of a response the call breaks, with all others in the same batch. */
  breakAfterStoring(count: number): void {
    this.#failNextAppends(count, (store) => {
      store();
      return { is: 'failed', error: new CallError(status.UNAVAILABLE, 'Connection dropped') };
    });
  }

  /** The next appends are stored, but the server reports a timeout, as during a leader election. */
  timeOut(count: number): void {
    this.#failNextAppends(count, (store) => {
      store();
      return { is: 'timed out' };
    });
  }

  /**
   * Refuses the next append to an existing stream before the stream can be read: this number of reads does not find the
   * stream.
   */
  lagIndex(reads: number): void {
    this.#indexLag = reads;
  }

  /** The next appends fail because the server is busy. */
  busy(count: number): void {
    this.#failNextAppends(count, () => ({ is: 'busy' }));
  }

  /** The next appends fail their call, with all others in the same batch. */
  failAppends(count: number, code: status): void {
    this.#failNextAppends(count, () => ({ is: 'failed', error: failedWith(code) }));
  }

  /** The next calls (appends, reads, subscriptions) are redirected to a leader, by default this server. */
  notLeader(count: number, leader: Endpoint = this.#endpoint): void {
    this.#failures.leaders.push(...Array<Endpoint>(count).fill(leader));
  }

  /** The next calls for the server's features fail. */
  failFeatures(count: number, code: status = status.INTERNAL): void {
    this.#failures.features.push(...Array<CallError>(count).fill(failedWith(code)));
  }

  /** The next reads fail. */
  failReads(count: number, code: status): void {
    this.#failures.reads.push(...Array<CallError>(count).fill(failedWith(code)));
  }

  /** Injected failures that have not occurred yet do not occur. */
  clearFailures(): void {
    for (const failures of Object.values(this.#failures)) failures.length = 0;
  }

  /** Sets the latency of every response, in milliseconds; their order is kept. */
  slow(milliseconds: number): void {
    this.#latency = milliseconds;
  }

  /** Ends every open subscription, with `reset` also every connection. */
  dropSubscriptions(how: Drop): void {
    if (how === 'reset') this.breakConnections();
    else for (const feed of this.#subscriptions) this.#drop(feed, how);
  }

  #drop(feed: Feed, how: Exclude<Drop, 'reset'>): void {
    this.#subscriptions.delete(feed);
    if (how === 'end') feed.end();
    else feed.fail(how === 'notLeader' ? notLeader(this.#endpoint) : DROPS[how]);
  }

  /** The open subscriptions stay open but receive nothing more. */
  muteSubscriptions(): void {
    for (const feed of this.#subscriptions) feed.isMuted = true;
  }

  /**
   * Subscriptions receive this number of events from the start of the log, then wait; with -1 they are not confirmed. A
   * page of the log that starts after this number of events also waits.
   */
  holdAfter(events: number): void {
    this.#heldAfter = events;
  }

  /** Reads pause after this number of events, or before their end, until `resumeReads`. */
  pauseReadsAfter(events: number): void {
    this.#readsPauseAfter = events;
  }

  resumeReads(): void {
    this.#readsPauseAfter = undefined;
    for (const feed of this.#reads) feed.pump();
  }

  get pausedReads(): number {
    return [...this.#reads].filter(({ isIdle }) => isIdle).length;
  }

  /** Open reads fail. */
  cancelReads(): void {
    for (const feed of this.#reads) feed.fail(DROPS.cancelled);
  }

  /** Breaks every connection. */
  breakConnections(): void {
    this.#listener.breakConnections();
  }

  /** Appends like another writer. */
  write(stream: string, event: EventToWrite = {}): FakeEvent {
    return this.log.append(stream, event);
  }

  #features = (_call: unknown, callback: sendUnaryData<SupportedMethods>): void => {
    const error = this.#failures.features.shift();
    this.#response(() => (error ? callback(error) : callback(null, supportedMethods())));
  };

  #gossip = (_call: ServerUnaryCall<unknown, ClusterInfo>, callback: sendUnaryData<ClusterInfo>): void => {
    const members = this.members ?? [{ port: this.#port, state: 'leader' }];
    this.#response(() => callback(null, clusterInfo(members, this.#endpoint.address)));
  };

  #batchAppend = (call: ServerDuplexStream<BatchAppendReq, BatchAppendResp>): void => {
    this.#batches.add(call);
    /** The options of appends whose large event follows in a separate request. */
    const pending = new Map<string, BatchAppendReq.Options>();
    const closed = () => void this.#batches.delete(call);
    const fail = (error: CallError) => {
      closed();
      this.#response(() => call.emit('error', error));
    };
    call.on('cancelled', closed);
    call.on('end', () => {
      closed();
      this.#response(() => call.end());
    });
    const accessError = this.#accessError(call.metadata);
    if (accessError?.code === status.UNAUTHENTICATED) fail(accessError);
    const readers = new Set(this.readers);
    call.on('data', (request: BatchAppendReq) => {
      if (!this.#batches.has(call)) return;
      const correlation = request.getCorrelationId()?.getString() ?? '';
      const options = request.getOptions() ?? pending.get(correlation);
      if (!options) return;
      pending.set(correlation, options);
      if (!request.getIsFinal()) return;
      pending.delete(correlation);
      const append = toAppend(options, request);
      const outcome =
        accessError || this.#isDenied(call.metadata, append.stream, this.keepsRights ? readers : this.readers)
          ? ({ is: 'denied' } as const)
          : this.#outcome(append);
      if (!outcome) return;
      const response = batchResponse(request, append.stream, outcome);
      if (response instanceof CallError) fail(response);
      else this.#response(() => call.write(response));
    });
  };

  #read = (call: ReadCall): void => {
    const options = call.request.getOptions();
    if (!options) return;
    const subscribes = options.hasSubscription();
    if (subscribes) {
      this.calls.subscribe++;
      this.subscribedAfter.push(positionIn(options));
    } else this.calls.read++;
    const accessError =
      this.#accessError(call.metadata) ??
      this.#redirect() ??
      this.#leaderRequired(call.metadata) ??
      (subscribes ? undefined : this.#failures.reads.shift());
    if (accessError) this.#response(() => call.emit('error', accessError));
    else if (subscribes) this.#subscribe(call, options);
    else {
      call.once('cancelled', () => this.calls.cancelled++);
      this.#feed(call, new Feed(call, this.#messages(options)), this.#reads);
    }
  };

  #messages(options: ReadReq.Options) {
    const stream = options.hasAll() ? '' : streamName(options.getStream()?.getStreamIdentifier());
    const lag = this.#notIndexed.get(stream) ?? 0;
    if (lag === 0) {
      const sent = (): void => void this.calls.sent++;
      return pausing(read(options, this.#served), () => this.#readsPauseAfter, sent);
    }
    this.#notIndexed.set(stream, lag - 1);
    return [streamNotFound(stream)].values();
  }

  #subscribe(call: ReadCall, options: ReadReq.Options): void {
    const feed = new Feed(call, subscription(options, this.#served));
    const unfollow = this.log.follow(() => this.#response(() => feed.pump()));
    this.#feed(call, feed, this.#subscriptions, unfollow);
  }

  #feed(call: ReadCall, feed: Feed, open: Set<Feed>, closed = () => {}): void {
    open.add(feed);
    for (const end of ['cancelled', 'finish', 'close']) {
      call.once(end, () => {
        open.delete(feed);
        closed();
      });
    }
    this.#response(() => feed.pump());
  }

  #outcome({ stream, expected, proposed }: Append): AppendOutcome | undefined {
    const redirect = this.#redirect();
    if (redirect) return { is: 'failed', error: redirect };
    const store = (): AppendOutcome => {
      if (appendSize(proposed) > MAX_APPEND_SIZE) return { is: 'too large' };
      if (this.log.deletion(stream) === 'tombstone') return { is: 'deleted' };
      const before = this.log.all.length;
      const result = this.log.appendExpecting(stream, expected, proposed);
      if (this.log.all.length > before) this.calls.appended++;
      if (!('current' in result)) return { is: 'stored', last: result };
      if (this.#indexLag > 0) this.#notIndexed.set(stream, this.#indexLag);
      this.#indexLag = 0;
      return { is: 'wrong revision', expected, current: result.current };
    };
    const failure = this.#failures.appends.shift();
    return failure ? failure(store) : store();
  }

  #failNextAppends(count: number, failure: Failure): void {
    this.#failures.appends.push(...Array<Failure>(count).fill(failure));
  }

  /** A client may require a response from the leader. */
  #leaderRequired(metadata: Metadata): CallError | undefined {
    if (metadata.get('requires-leader')[0] !== 'true') return undefined;
    const members = this.members ?? [];
    const isFollower = members.some(({ port, state }) => port === this.#port && state === 'follower');
    if (!isFollower) return undefined;
    const leader = members.find(({ state, isAlive }) => state === 'leader' && isAlive !== false);
    if (!leader) return new CallError(status.UNAVAILABLE, 'Server Is Not Ready');
    return notLeader({ address: '127.0.0.1', port: leader.port });
  }

  #redirect(): CallError | undefined {
    const leader = this.#failures.leaders.shift();
    return leader && notLeader(leader);
  }

  /** The error for a call with these credentials, if they are not sufficient. */
  #accessError(metadata: Metadata): CallError | undefined {
    const { users } = this.#options;
    if (users === undefined) return undefined;
    const decoded = credentialsIn(metadata);
    if (decoded === undefined) return accessDenied();
    const isKnown = Object.entries(users).some(([name, password]) => decoded === `${name}:${password}`);
    return isKnown ? undefined : new CallError(status.UNAUTHENTICATED, 'Bad credentials');
  }

  /** Whether this user may not append to a stream. */
  #isDenied(metadata: Metadata, stream: string, readers: ReadonlySet<string>): boolean {
    const [user = ''] = credentialsIn(metadata)?.split(':') ?? [];
    const isDenied = readers.has(user) || this.protectedStreams.has(stream);
    if (isDenied) this.denied.push(stream);
    return isDenied;
  }

  /** Sends now, or after the latency; responses stay in order. */
  #response(send: () => void): void {
    if (this.#latency === 0 && this.#responses.length === 0) return void send();
    const now = performance.now();
    const due = Math.max(now + this.#latency, this.#responses.at(-1)?.due ?? 0);
    const timer = setTimeout(() => this.#responses.shift()?.send(), due - now);
    this.#responses.push({ due, send, timer });
  }
}

const failedWith = (code: status): CallError => new CallError(code, `failed with ${status[code]}`);

function toAppend(options: BatchAppendReq.Options, request: BatchAppendReq): Append {
  const [message] = request.getProposedMessagesList() as [BatchAppendReq.ProposedMessage];
  const stream = streamName(options.getStreamIdentifier());
  return { stream, expected: expectedRevision(options), proposed: proposedEvent(message) };
}

/** The user and the password, separated by a colon. */
function credentialsIn(metadata: Metadata): string | undefined {
  const [credentials] = metadata.get('authorization');
  if (credentials === undefined) return undefined;
  return Buffer.from(`${credentials}`.replace('Basic ', ''), 'base64').toString();
}

/** The size in bytes as the server measures it: types are UTF-16. */
function appendSize({ type, data, metadata }: ProposedEvent): number {
  return 2 * type.length + data.length + metadata.length;
}
