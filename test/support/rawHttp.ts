import { connect } from 'node:net';

/** A server is asked whether it has more to say after it has been silent for so long, in milliseconds. */
const QUIET_MS = 50;

/**
 * Sends bytes over a connection of their own; gives all that came back until the server closed it. Where `idle` is given,
 * the sending side is closed as soon as nothing has come back while `idle` resolved.
 */
export function exchange(
  url: string,
  bytes: string | Buffer,
  idle?: () => Promise<unknown>,
): Promise<Buffer> {
  const { hostname: host, port } = new URL(url);
  return new Promise((resolve) => {
    const received: Buffer[] = [];
    const socket = connect({ host, port: Number(port), allowHalfOpen: true });
    socket.on('data', (piece: Buffer) => received.push(piece));
    socket.on('error', () => {}); // a reset is a way to close
    socket.on('end', () => socket.destroy());
    socket.on('close', () => resolve(Buffer.concat(received)));
    socket.write(bytes);
    if (!idle) return;
    socket.setTimeout(QUIET_MS);
    socket.on('timeout', async () => {
      const before = received.length;
      await idle();
      if (received.length === before) socket.end();
    });
  });
}

/** The answers in a stream of bytes, one after the other, interim ones (1xx) left out. @throws Error when it is none */
export function answersIn(bytes: Buffer): Response[] {
  const answers: Response[] = [];
  for (let rest = bytes; rest.length > 0; ) {
    const end = rest.indexOf('\r\n\r\n');
    const [first = '', ...lines] = rest.toString('latin1', 0, Math.max(end, 0)).split('\r\n');
    const status = Number(/^HTTP\/1\.1 (\d{3}) /.exec(first)?.[1]);
    if (end === -1 || Number.isNaN(status)) throw new Error(`no HTTP answer: ${rest.toString('latin1')}`);
    rest = rest.subarray(end + 4);
    if (status < 200) continue;
    const headers = new Headers(lines.map((line) => line.split(/: ?(.*)/s, 2) as [string, string]));
    const length = Number(headers.get('content-length') ?? 0);
    if (headers.has('transfer-encoding') || rest.length < length) throw new Error(`not whole: ${first}`);
    answers.push(new Response(status === 204 ? null : rest.subarray(0, length), { status, headers }));
    rest = rest.subarray(length);
  }
  return answers;
}

/** The one answer to these bytes; `idle` as for `exchange`. */
export async function answerTo(
  url: string,
  bytes: string | Buffer,
  idle?: () => Promise<unknown>,
): Promise<Response> {
  const [answer, ...others] = answersIn(await exchange(url, bytes, idle));
  if (!answer || others.length > 0) throw new Error(`${others.length + (answer ? 1 : 0)} answers, not one`);
  return answer;
}
