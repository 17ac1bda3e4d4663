import { EventStoreDBClient } from '@eventstore/db-client';
import { CONNECTION_STRING } from './protocol.ts';

/** For a node to report the leader: a frozen node delays each look-up. */
const GOSSIP_TIMEOUT_S = 2;

/**
 * Opens the client for a connection string. Only for the client's own thread: it turns the client's warnings into
 * errors.
 * @throws Error that does not quote the connection string, which may contain a password
 */
export function openClient(connectionString: string): EventStoreDBClient {
  const url = connectionString.replace(/\/+$/, '').replace(/^(kurrentdb|kurrent|kdb)(?=:|\+)/, 'esdb');
  const [beforeOptions] = new RegExp(CONNECTION_STRING).exec(url) ?? [];
  const options = url.slice(beforeOptions?.length).split('&').filter(Boolean);
  const names = options.map((option) => option.replace(/=.*/, '').toLowerCase().replaceAll(/[-_]/g, ''));
  console.warn = (warning) => {
    const [, unsupported] = /^(Unknown option|"tlsVerifyCert")/.exec(warning) ?? [];
    if (unsupported === 'Unknown option') throw new Error('it has an unknown option');
    if (unsupported) throw new Error('tlsVerifyCert cannot be false: set tlsCAFile');
  };
  try {
    if (beforeOptions === undefined) throw new Error('expected esdb://user:password@host');
    if (options.includes('tls=false') && names.includes('tlscafile'))
      throw new Error('it has both tls=false and tlsCAFile');
    const gossipTimeout = `${beforeOptions.endsWith('?') ? '&' : '?'}gossipTimeout=${GOSSIP_TIMEOUT_S}`;
    return Uncompressed.open(names.includes('gossiptimeout') ? url : url + gossipTimeout);
  } catch (error) {
    const { expected, location, message } = error as ParseError;
    const problem = expected === undefined ? message : `expected ${expected} at position ${location?.[0]}`;
    throw new Error(
      `the connection string is invalid: ${problem}; in a password, : @ and % are written as %3A %40 %25`,
    );
  }
}

/**
 * Asks the server not to compress its messages: KurrentDB does since 25.1, which costs the client five times the CPU of
 * an event. A subclass, since the client's metadata of calls are protected. gRPC sets the header again on each copy.
 */
abstract class Uncompressed extends EventStoreDBClient {
  static open(url: string): EventStoreDBClient {
    const client = EventStoreDBClient.connectionString(url) as Uncompressed;
    const { callArguments } = client;
    client.callArguments = (...given) => {
      const [metadata, options] = callArguments(...given);
      return [uncompressed(metadata), options];
    };
    return client;
  }
}

type Metadata = ReturnType<Uncompressed['callArguments']>[0];

function uncompressed(metadata: Metadata): Metadata {
  const { set, clone } = metadata;
  metadata.set = (name, value) =>
    set.call(metadata, name, name === 'grpc-accept-encoding' ? 'identity' : value);
  metadata.clone = () => uncompressed(clone.call(metadata));
  return metadata;
}

/** The client's error, whose message quotes the connection string. */
type ParseError = Error & { expected?: string; location?: [from: number, to: number] };
