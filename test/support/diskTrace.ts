import { readFileSync } from 'node:fs';
import { canRun } from './process.ts';

// What a process does to its files, and which plants it acknowledges, by its system calls (strace).

type Effect =
  | { call: 'create' | 'mkdir' | 'unlink' | 'sync'; path: string }
  | { call: 'rename' | 'link'; path: string; target: string }
  | { call: 'write'; path: string; bytes: Buffer; at: number | 'end' }
  | { call: 'truncate'; path: string; size: number }
  | { call: 'acknowledge'; name: string; position: string };

/** An effect of a system call that is in progress from line `from` to line `to` of the trace. */
export type Step = Effect & { from: number; to: number };

const FILE_CALLS = [
  ...['openat', 'open', 'creat', 'mkdir', 'mkdirat', 'rmdir', 'link', 'linkat', 'unlink', 'unlinkat'],
  ...['rename', 'renameat', 'renameat2', 'truncate', 'ftruncate', 'fallocate', 'copy_file_range'],
  ...['write', 'writev', 'pwrite64', 'pwritev', 'pwritev2', 'sendfile', 'fsync', 'fdatasync'],
];

/** The command of a process with its trace in a file. */
export const traced = (trace: string, command: readonly string[]): string[] => [
  ...['strace', '-f', '--seccomp-bpf', '-y', '-s', '4000000', '-e', `trace=${FILE_CALLS}`, '-o', trace],
  ...command,
];

export const canTrace = canRun('what a power cut leaves', traced('/dev/null', ['true']));

/** The first process of a trace. */
export const tracedPid = (trace: string): number => Number.parseInt(readFileSync(trace, 'latin1'), 10);

type Call = { name: string; args: string; result: number; from: number; to: number };

/**
 * The successful calls of a trace, in the order of their ends, and calls that a kill interrupted: strace leaves them
 * unfinished, or shows a question mark as their result.
 */
function callsIn(trace: string): { ended: Call[]; interrupted: Call[] } {
  const ended: Call[] = [];
  const interrupted: Call[] = [];
  const unfinished = new Map<string, { text: string; from: number }>();
  for (const [at, line] of readFileSync(trace, 'latin1').split('\n').entries()) {
    const thread = line.slice(0, line.indexOf(' '));
    let text = line.slice(thread.length).trimStart();
    let from = at;
    const resumed = /^<\.\.\. \w+ resumed>/.exec(text);
    if (resumed) {
      const begun = unfinished.get(thread);
      unfinished.delete(thread);
      if (!begun) throw new Error(`line ${at} of the trace resumes no call`);
      text = begun.text + text.slice(resumed[0].length);
      from = begun.from;
    }
    if (text.endsWith(' <unfinished ...>')) {
      unfinished.set(thread, { text: text.slice(0, -' <unfinished ...>'.length), from });
      continue;
    }
    const call = /^\w+\(/.test(text) ? parse(text) : undefined;
    if (call && Number.isNaN(call.result)) interrupted.push({ ...call, from, to: Number.POSITIVE_INFINITY });
    else if (call && call.result >= 0) ended.push({ ...call, from, to: at });
  }
  for (const { text, from } of unfinished.values())
    interrupted.push({ ...parse(`${text}) = ?`), from, to: Number.POSITIVE_INFINITY });
  return { ended, interrupted };
}

function parse(text: string): { name: string; args: string; result: number } {
  const end = text.lastIndexOf(') ');
  const open = text.indexOf('(');
  const result = Number.parseInt(text.slice(text.indexOf('=', end) + 1), 10); // NaN if the kill interrupted it
  return { name: text.slice(0, open), args: text.slice(open + 1, end), result };
}

/** The steps of a trace on files below a directory, and its acknowledgements. */
export function stepsIn(trace: string, root: string): { steps: Step[]; interrupted: Step[] } {
  const toSteps = (calls: Call[]): Step[] =>
    calls.flatMap((call) => effectsOf(call, root).map((effect) => ({ ...effect, ...spanOf(call) })));
  const { ended, interrupted } = callsIn(trace);
  return { steps: toSteps(ended), interrupted: toSteps(interrupted) };
}

const spanOf = ({ from, to }: Call) => ({ from, to });

function effectsOf({ name, args, result }: Call, root: string): Effect[] {
  if (/^writev?$/.test(name) && args.includes('HTTP/1.1 200 OK')) return acknowledgements(args);
  const named = name.includes('write') ? /^\d+<(\/[^>]*)>/g : /[<"](\/[^>"]*)[>"]/g; // what is written may look like a path
  const paths = [...args.matchAll(named)].map(([, path]) => path as string);
  const [path = '', target = ''] = paths.filter((path) => path === root || path.startsWith(`${root}/`));
  if (path === '' || args.includes('(deleted)')) return [];
  const [, tail = ''] = /, (-?\d+)$/.exec(args) ?? [];
  switch (name) {
    case 'openat':
      return args.includes('O_CREAT') ? [{ call: 'create', path }] : [];
    case 'mkdir':
    case 'unlink':
      return [{ call: name, path }];
    case 'fsync':
    case 'fdatasync':
      return [{ call: 'sync', path }];
    case 'rename':
    case 'link':
      return [{ call: name, path, target }];
    case 'ftruncate':
      return [{ call: 'truncate', path, size: Number(tail) }];
    case 'write':
    case 'pwrite64': {
      const bytes = toBytes(args.slice(args.indexOf('"') + 1, args.lastIndexOf('"')));
      const written = bytes.subarray(0, result || bytes.length);
      return [{ call: 'write', path, bytes: written, at: name === 'write' ? 'end' : Number(tail) }];
    }
    default:
      throw new Error(`the disk's model lacks ${name}(${args.slice(0, 200)})`);
  }
}

/** The responses to POSTs in what a socket sends. */
function acknowledgements(args: string): Effect[] {
  const responses = args.matchAll(
    /log-position: ([\w.]+).*?\\r\\n\\r\\n(?:[^{]*iov_base=")?\{\\"name\\":\\"([^"\\]+)/g,
  );
  return [...responses].map(([, position = '', name = '']) => ({ call: 'acknowledge', name, position }));
}

const ESCAPES: Record<string, string> = { n: '\n', t: '\t', r: '\r', v: '\v', f: '\f' };

/** The bytes of a string of strace. */
function toBytes(text: string): Buffer {
  const bytes = text.replace(/\\([0-7]{1,3}|.)/g, (_, code: string) =>
    code >= '0' && code < '8' ? String.fromCharCode(Number.parseInt(code, 8)) : (ESCAPES[code] ?? code),
  );
  return Buffer.from(bytes, 'latin1');
}
