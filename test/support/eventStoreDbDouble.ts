import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { setImmediate } from 'node:timers/promises';
import gossipService from '@eventstore/db-client/generated/gossip_grpc_pb.js';
import type { ClusterInfo } from '@eventstore/db-client/generated/gossip_pb.js';
import featuresService from '@eventstore/db-client/generated/serverfeatures_grpc_pb.js';
import type { SupportedMethods } from '@eventstore/db-client/generated/serverfeatures_pb.js';
import streamsService from '@eventstore/db-client/generated/streams_grpc_pb.js';
import type {
  AppendReq,
  AppendResp,
  BatchAppendReq,
  BatchAppendResp,
} from '@eventstore/db-client/generated/streams_pb.js';
import {
  type Metadata,
  Server,
  ServerCredentials,
  type ServerDuplexStream,
  type ServerReadableStream,
  type ServerUnaryCall,
  type sendUnaryData,
  status,
} from '@grpc/grpc-js';
import {
  type DoubleEvent,
  DoubleLog,
  type EventToWrite,
  type ExpectedRevision,
  type ProposedEvent,
} from './eventStoreDbLog.ts';
import {
  type AppendOutcome,
  accessDenied,
  appendAnswer,
  batchAnswer,
  CallError,
  clusterInfo,
  type Endpoint,
  expectedRevision,
  MAX_APPEND_SIZE,
  type Member,
  notLeader,
  proposedEvent,
  streamName,
  supportedMethods,
} from './eventStoreDbMessages.ts';
import { EventStoreDbPort } from './eventStoreDbPort.ts';
import { Feed, type ReadCall, read, Subscription } from './eventStoreDbReading.ts';

export { type DoubleEvent, DoubleLog, type EventToWrite } from './eventStoreDbLog.ts';
export type { Endpoint, Member } from './eventStoreDbMessages.ts';

export type DoubleOptions = {
  /** A free one when absent. */
  port?: number;
  host?: string;
  /** Shared by the nodes of a cluster. */
  log?: DoubleLog;
  /** Servers before 21.10 have no server features, so clients append without batches. */
  serverFeatures?: 'batch' | 'unimplemented';
  /** Servers before 23.10 never say that a subscription has caught up. */
  caughtUp?: boolean;
  /** Names and passwords; everybody may do everything when absent. Clients send credentials over TLS only. */
  users?: Record<string, string>;
  /** In PEM. */
  tls?: { key: string; cert: string };
  /** So many events may a live subscription fall behind before it is dropped; without it, any number. */
  lagLimit?: number;
  /** What every answer takes, in milliseconds. */
  latency?: number;
};

export type Drop = 'end' | 'slow' | 'cancelled' | 'unavailable' | 'reset' | 'internal' | 'notLeader';

type Append = { stream: string; expected: ExpectedRevision; proposed: ProposedEvent[] };
/** Undefined where the append is never answered. */
type Fault = (store: () => AppendOutcome) => AppendOutcome | undefined;

const UUID = /^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/i;

const SLOW =
  'Operation timed out: Consumer too slow to handle event while live. Client resubscription required.';
const DROPS = {
  slow: new CallError(status.ABORTED, SLOW),
  cancelled: new CallError(status.CANCELLED, 'Operation was cancelled'),
  unavailable: new CallError(status.UNAVAILABLE, 'Server Is Not Ready'),
  internal: new CallError(status.INTERNAL, 'Received RST_STREAM with code 2 (Internal server error)'),
};

/** A server that speaks EventStoreDB's gRPC protocol over a log in memory, and fails when it is told to. */
export class EventStoreDbDouble {
  readonly log: DoubleLog;
  /**
   * What was asked for: `append` counts unary appends, `batchAppend` batches, `batched` the appends that came in
   * them, `appended` the appends of both ways that put something into the log.
   */
  readonly calls = {
    features: 0,
    append: 0,
    batchAppend: 0,
    batched: 0,
    appended: 0,
    read: 0,
    subscribe: 0,
    gossip: 0,
  };
  users: Record<string, string> | undefined;

  readonly #options: DoubleOptions;
  readonly #host: string;
  readonly #door: EventStoreDbPort;
  readonly #subscriptions = new Set<Feed>();
  readonly #reads = new Set<Feed>();
  readonly #batches = new Set<unknown>();
  readonly #answers: { due: number; send: () => void; timer: NodeJS.Timeout }[] = [];
  readonly #appendFaults: { left: number; fault: Fault }[] = [];
  readonly #featureFaults: CallError[] = [];
  readonly #readFaults: CallError[] = [];
  readonly #leaders: Endpoint[] = [];
  #port: number;
  #latency: number;
  #heldAfter = Number.POSITIVE_INFINITY;
  #members: Member[] | undefined;

  private constructor(options: DoubleOptions) {
    const { log = new DoubleLog(), host = '127.0.0.1', port = 0, latency = 0, users, tls } = options;
    this.log = log;
    this.users = users;
    this.#options = options;
    this.#host = host;
    this.#port = port;
    this.#latency = latency;

    const grpc = new Server({
      'grpc.max_receive_message_length': 17 * 1_024 * 1_024,
      'grpc.enable_channelz': 0,
    });
    grpc.addService(featuresService.ServerFeaturesService, { getSupportedMethods: this.#features });
    grpc.addService(gossipService.GossipService, { read: this.#gossip });
    grpc.addService(streamsService.StreamsService, {
      append: this.#append,
      batchAppend: this.#batchAppend,
      read: this.#read,
    });
    const keys = tls && [{ private_key: Buffer.from(tls.key), cert_chain: Buffer.from(tls.cert) }];
    const injector = grpc.createConnectionInjector(
      keys ? ServerCredentials.createSsl(null, keys) : ServerCredentials.createInsecure(),
    );
    const http = createServer(({ url }, response) =>
      response.writeHead(url === '/health/live' ? 204 : 404).end(),
    );
    this.#door = new EventStoreDbPort(
      (connection) => injector.injectConnection(connection),
      (connection) => http.emit('connection', connection),
    );
  }

  static async start(options: DoubleOptions = {}): Promise<EventStoreDbDouble> {
    const double = new EventStoreDbDouble(options);
    await double.restart();
    return double;
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

  get openSubscriptions(): number {
    return this.#subscriptions.size;
  }

  get openReads(): number {
    return this.#reads.size;
  }

  get openBatches(): number {
    return this.#batches.size;
  }

  /** Calls that are still to fail in one of the ways below. */
  get faultsLeft(): number {
    const ofAppends = this.#appendFaults.reduce((sum, { left }) => sum + left, 0);
    return ofAppends + this.#featureFaults.length + this.#readFaults.length + this.#leaders.length;
  }

  /** Ends as a killed process does; the log stays. */
  async stop(): Promise<void> {
    for (const { timer } of this.#answers.splice(0)) clearTimeout(timer);
    await this.#door.close();
    // The calls hear of it some turns later.
    while (this.openBatches + this.openReads + this.openSubscriptions > 0) await setImmediate();
  }

  /** Listens again, on the same port and over the same log. */
  async restart(): Promise<void> {
    this.#port = await this.#door.listen(this.#port, this.#host);
  }

  /** Empties the log but for its first event, once nothing reads it any more; connections stay. */
  async clear(): Promise<void> {
    while (this.openReads + this.openSubscriptions > 0) await setImmediate();
    this.log.clear();
  }

  /** Falls silent as a stopped process does (SIGSTOP): takes connections and bytes, and answers nothing until thawed. */
  freeze(): void {
    this.#door.freeze();
  }

  thaw(): void {
    this.#door.thaw();
  }

  /** The next appends are stored but never answered; their calls stay open. */
  loseAnswers(count: number): void {
    this.#failNextAppends(count, (store) => void store());
  }

  /** The next appends are stored; instead of an answer the call breaks, with all that is in the same batch. */
  breakAfterStoring(count: number): void {
    this.#failNextAppends(count, (store) => {
      store();
      return { is: 'failed', error: new CallError(status.UNAVAILABLE, 'Connection dropped') };
    });
  }

  /** The next appends are stored, but the server says that it ran out of time, as at a change of leaders. */
  timeOut(count: number): void {
    this.#failNextAppends(count, (store) => {
      store();
      return { is: 'timed out' };
    });
  }

  /** The next appends are refused since the server is busy. */
  busy(count: number): void {
    this.#failNextAppends(count, () => ({ is: 'busy' }));
  }

  /** The next appends end their call, with all that is in the same batch. */
  failAppends(count: number, code: status): void {
    const error = new CallError(code, `failed with ${status[code]}`);
    this.#failNextAppends(count, () => ({ is: 'failed', error }));
  }

  /** The next calls (appends, reads, subscriptions) are sent to a leader, this very server when none is given. */
  notLeader(count: number, leader: Endpoint = this.#endpoint): void {
    this.#leaders.push(...Array<Endpoint>(count).fill(leader));
  }

  /** The next look-ups of the server's features fail. */
  failFeatures(count: number, code: status = status.INTERNAL): void {
    const error = new CallError(code, `failed with ${status[code]}`);
    this.#featureFaults.push(...Array<CallError>(count).fill(error));
  }

  /** The next reads fail. */
  failReads(count: number, code: status): void {
    const error = new CallError(code, `failed with ${status[code]}`);
    this.#readFaults.push(...Array<CallError>(count).fill(error));
  }

  /** Every answer takes so many milliseconds from now on; their order stays. */
  slow(milliseconds: number): void {
    this.#latency = milliseconds;
  }

  /** Ends every open subscription, by `reset` with every connection; gives how many there were. */
  dropSubscriptions(how: Drop): number {
    const dropped = [...this.#subscriptions];
    if (how === 'reset') this.#door.breakConnections();
    else for (const feed of dropped) this.#drop(feed, how);
    return dropped.length;
  }

  /** The open subscriptions stay open but are given nothing any more. */
  muteSubscriptions(): void {
    for (const feed of this.#subscriptions) feed.muted = true;
  }

  unmuteSubscriptions(): void {
    for (const feed of this.#subscriptions) {
      feed.muted = false;
      feed.pump();
    }
  }

  /** Subscriptions are given so many events from the start of the log, and then wait; with -1 they are not even confirmed. */
  holdAfter(events: number): void {
    this.#heldAfter = events;
  }

  /** Appends as another writer would. */
  write(stream: string, event: EventToWrite = {}): DoubleEvent {
    return this.log.append(stream, event);
  }

  /** What gossip says from now on. */
  setMembers(members: Member[]): void {
    this.#members = members;
  }

  #features = (_call: unknown, callback: sendUnaryData<SupportedMethods>): void => {
    this.calls.features++;
    const unimplemented = this.#options.serverFeatures === 'unimplemented';
    const error = unimplemented
      ? new CallError(status.UNIMPLEMENTED, 'Service is unimplemented.')
      : this.#featureFaults.shift();
    this.#answer(() => (error ? callback(error) : callback(null, supportedMethods())));
  };

  #gossip = (_call: ServerUnaryCall<unknown, ClusterInfo>, callback: sendUnaryData<ClusterInfo>): void => {
    this.calls.gossip++;
    const members = this.#members ?? [{ port: this.#port, state: 'leader' }];
    this.#answer(() => callback(null, clusterInfo(members, this.#endpoint.address)));
  };

  #append = (
    call: ServerReadableStream<AppendReq, AppendResp>,
    callback: sendUnaryData<AppendResp>,
  ): void => {
    this.calls.append++;
    let options: AppendReq.Options | undefined;
    const proposed: ProposedEvent[] = [];
    call.on('data', (request: AppendReq) => {
      options ??= request.getOptions();
      const message = request.getProposedMessage();
      if (message) proposed.push(proposedEvent(message));
    });
    call.on('end', async () => {
      await setImmediate(); // a call that broke off ends as well, and is known as cancelled only now
      if (!options || call.cancelled) return;
      const error = this.#refused(call.metadata);
      const outcome = error ? ({ is: 'failed', error } as const) : this.#outcome(asked(options, proposed));
      if (!outcome) return;
      const answer = appendAnswer(outcome);
      this.#answer(() => (answer instanceof CallError ? callback(answer) : callback(null, answer)));
    });
  };

  #batchAppend = (call: ServerDuplexStream<BatchAppendReq, BatchAppendResp>): void => {
    this.calls.batchAppend++;
    this.#batches.add(call);
    const pending = new Map<string, Append>();
    let over = false;
    const gone = () => {
      over = true;
      this.#batches.delete(call);
    };
    const fail = (error: CallError) => {
      gone();
      this.#answer(() => call.emit('error', error));
    };
    call.on('cancelled', gone);
    call.on('end', () => {
      gone();
      this.#answer(() => call.end());
    });
    const refusal = this.#refused(call.metadata);
    if (refusal?.code === status.UNAUTHENTICATED) fail(refusal);
    call.on('data', (request: BatchAppendReq) => {
      if (over) return;
      const correlation = request.getCorrelationId()?.getString() ?? '';
      const options = request.getOptions();
      if (options) pending.set(correlation, asked(options, []));
      const append = pending.get(correlation);
      if (!append) return;
      append.proposed.push(...request.getProposedMessagesList().map(proposedEvent));
      if (!request.getIsFinal()) return;
      pending.delete(correlation);
      this.calls.batched++;
      const outcome = refusal ? ({ is: 'denied' } as const) : this.#outcome(append);
      if (!outcome) return;
      const answer = batchAnswer(request, append.stream, outcome);
      if (answer instanceof CallError) fail(answer);
      else this.#answer(() => call.write(answer));
    });
  };

  #read = (call: ReadCall): void => {
    const options = call.request.getOptions();
    if (!options) return;
    const subscribes = options.hasSubscription();
    if (subscribes) this.calls.subscribe++;
    else this.calls.read++;
    const refusal =
      this.#refused(call.metadata) ??
      this.#elsewhere() ??
      this.#onlyByLeader(call.metadata) ??
      (subscribes ? undefined : this.#readFaults.shift());
    if (refusal) this.#answer(() => call.emit('error', refusal));
    else if (subscribes)
      this.#subscribe(
        call,
        new Subscription(this.log, options, this.#options.caughtUp ?? true, () => this.#heldAfter),
      );
    else this.#feed(call, new Feed(call, read(this.log, options)), this.#reads);
  };

  #subscribe(call: ReadCall, subscription: Subscription): void {
    const feed = new Feed(call, subscription.messages(randomUUID()));
    const { lagLimit = Number.POSITIVE_INFINITY } = this.#options;
    const unfollow = this.log.follow(() =>
      this.#answer(() => {
        feed.pump();
        if (subscription.behind > lagLimit) this.#drop(feed, 'slow');
      }),
    );
    this.#feed(call, feed, this.#subscriptions, unfollow);
  }

  #feed(call: ReadCall, feed: Feed, open: Set<Feed>, gone = () => {}): void {
    open.add(feed);
    for (const end of ['cancelled', 'finish', 'close']) {
      call.once(end, () => {
        open.delete(feed);
        gone();
      });
    }
    this.#answer(() => feed.pump());
  }

  #drop(feed: Feed, how: Exclude<Drop, 'reset'>): void {
    this.#subscriptions.delete(feed);
    if (how === 'end') feed.end();
    else if (how === 'notLeader') feed.fail(notLeader(this.#endpoint));
    else feed.fail(DROPS[how]);
  }

  #outcome({ stream, expected, proposed }: Append): AppendOutcome | undefined {
    const elsewhere = this.#elsewhere();
    if (elsewhere) return { is: 'failed', error: elsewhere };
    const store = (): AppendOutcome => {
      if (!proposed.every(({ id }) => UUID.test(id)))
        return { is: 'bad request', message: 'Guid should contain 32 digits with 4 dashes' };
      if (proposed.reduce((sum, event) => sum + sizeOf(event), 0) > MAX_APPEND_SIZE)
        return { is: 'too large' };
      const before = this.log.all.length;
      const result = this.log.appendExpecting(stream, expected, proposed);
      if (this.log.all.length > before) this.calls.appended++;
      return 'current' in result
        ? { is: 'wrong revision', expected, current: result.current }
        : { is: 'stored', last: result };
    };
    const [next] = this.#appendFaults;
    if (!next) return store();
    if (--next.left === 0) this.#appendFaults.shift();
    return next.fault(store);
  }

  #failNextAppends(count: number, fault: Fault): void {
    if (count > 0) this.#appendFaults.push({ left: count, fault });
  }

  /** A client may ask that nobody but the leader answers. */
  #onlyByLeader(metadata: Metadata): CallError | undefined {
    if (metadata.get('requires-leader')[0] !== 'true') return undefined;
    const members = this.#members ?? [];
    const isFollower = members.some(({ port, state }) => port === this.#port && state === 'follower');
    if (!isFollower) return undefined;
    const leader = members.find(({ state, isAlive }) => state === 'leader' && isAlive !== false);
    if (!leader) return new CallError(status.UNAVAILABLE, 'Server Is Not Ready');
    return notLeader({ address: '127.0.0.1', port: leader.port });
  }

  #elsewhere(): CallError | undefined {
    const leader = this.#leaders.shift();
    return leader && notLeader(leader);
  }

  /** Why a call with these credentials is refused, if it is. */
  #refused(metadata: Metadata): CallError | undefined {
    if (this.users === undefined) return undefined;
    const [credentials] = metadata.get('authorization');
    if (credentials === undefined) return accessDenied();
    const decoded = Buffer.from(`${credentials}`.replace('Basic ', ''), 'base64').toString();
    const known = Object.entries(this.users).some(([name, password]) => decoded === `${name}:${password}`);
    return known ? undefined : new CallError(status.UNAUTHENTICATED, 'Bad credentials');
  }

  /** Sends now, or after the latency; later answers never overtake. */
  #answer(send: () => void): void {
    if (this.#latency === 0 && this.#answers.length === 0) return void send();
    const now = performance.now();
    const due = Math.max(now + this.#latency, this.#answers.at(-1)?.due ?? 0);
    const timer = setTimeout(() => this.#answers.shift()?.send(), due - now);
    this.#answers.push({ due, send, timer });
  }
}

function asked(options: AppendReq.Options | BatchAppendReq.Options, proposed: ProposedEvent[]): Append {
  return { stream: streamName(options.getStreamIdentifier()), expected: expectedRevision(options), proposed };
}

/** As the server counts it, in bytes: types are kept in UTF-16. */
function sizeOf({ type, data, metadata }: ProposedEvent): number {
  return 2 * type.length + data.length + metadata.length;
}
