import { autocannonGenerator } from './autocannon.ts';
import { wrkGenerator } from './wrk.ts';

/** What a load generator sends. */
export type Load = {
  method: 'GET' | 'POST';
  url: string;
  connections: number;
  seconds: number;
  /** A token a line. */
  tokenFile: string;
  /** Of so many users, one request after the other. */
  users: number;
  /** The ID of the first plant of a POST; the next ones follow. */
  firstId: number;
};

/** Latencies in milliseconds; `failed` counts what did not succeed, by kind. */
export type Sent = {
  requests: number;
  seconds: number;
  p50: number;
  p99: number;
  failed: Record<string, number>;
};

/** A program that keeps a number of connections busy: each sends its next request when it has a response. */
export type Generator = { name: string; send: (load: Load) => Promise<Sent> };

/** wrk where it is installed, since it costs little, otherwise autocannon. @throws Error if wrk is not there */
export function chooseGenerator(choice: 'wrk' | 'autocannon' | undefined): Generator {
  const wrk = choice === 'autocannon' ? undefined : wrkGenerator();
  if (choice === 'wrk' && !wrk) throw new Error('wrk is not installed');
  return wrk ?? autocannonGenerator;
}
