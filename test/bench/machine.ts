import { readFileSync } from 'node:fs';

const TICKS_PER_SECOND = 100; // USER_HZ, wherever Node runs on Linux

/**
 * Starts to watch the machine. The result is how many cores other processes and other virtual machines have
 * used since then; to be called when this process's children have ended. NaN if the system does not provide it.
 */
export function watchOthers(): () => number {
  const now = () => ticksOfOthers(read('/proc/stat'), read('/proc/self/stat'));
  const [startedAt, before] = [performance.now(), now()];
  return () => {
    const seconds = (performance.now() - startedAt) / 1_000;
    return (now() - before) / TICKS_PER_SECOND / seconds;
  };
}

/**
 * CPU time of everything but a process and its ended children, from /proc/stat and that process's /proc/PID/stat
 * (https://man7.org/linux/man-pages/man5/proc_stat.5.html, proc_pid_stat.5.html).
 */
export function ticksOfOthers(machine: string, process: string): number {
  const [line = ''] = machine.split('\n');
  const [user, nice, system, , , irq, softirq, steal] = line.split(/ +/).slice(1).map(Number);
  const own = process
    .slice(process.lastIndexOf(')') + 2)
    .split(' ')
    .slice(11, 15)
    .map(Number);
  return sum(user, nice, system, irq, softirq, steal) - sum(...own);
}

const sum = (...ticks: (number | undefined)[]): number =>
  ticks.reduce<number>((total, number = Number.NaN) => total + number, 0);

function read(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return '';
  }
}
