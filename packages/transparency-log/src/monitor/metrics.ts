import { createServer } from 'node:http';
import { type Address, listen } from '../http/address.ts';
import { ALARM_KINDS, type AlarmKind } from './alarm.ts';

const PREFIX = 'transparency_log_monitor_';

/** What Prometheus collects of a monitor. Times are in seconds since 1970. */
export class Metrics {
  checkedAt: number | undefined;
  size: number | undefined;
  cosignedAt: number | undefined;
  checksFailed = 0;
  alarm: AlarmKind | undefined;

  /** The text format of Prometheus. */
  text(now: number): string {
    const { checkedAt, size, cosignedAt, checksFailed, alarm } = this;
    const gauge = (value: number | undefined): string[] => (value === undefined ? [] : [` ${value}`]);
    const age = cosignedAt === undefined ? undefined : Math.max(0, now - cosignedAt);
    const alarms = ALARM_KINDS.map((kind) => `{kind="${kind}"} ${kind === alarm ? 1 : 0}`);
    const metrics: [name: string, type: string, help: string, samples: string[]][] = [
      ['last_success_timestamp_seconds', 'gauge', 'When the log was last checked.', gauge(checkedAt)],
      ['size', 'gauge', 'The number of events that were checked.', gauge(size)],
      ['cosignature_age_seconds', 'gauge', 'The age of the newest cosignature.', gauge(age)],
      ['checks_failed_total', 'counter', 'Checks that failed.', [` ${checksFailed}`]],
      ['alarm', 'gauge', 'Whether there is an alarm.', alarms],
    ];
    return metrics
      .filter(([, , , samples]) => samples.length > 0)
      .flatMap(([name, type, help, samples]) => [
        `# HELP ${PREFIX}${name} ${help}\n# TYPE ${PREFIX}${name} ${type}\n`,
        ...samples.map((sample) => `${PREFIX}${name}${sample}\n`),
      ])
      .join('');
  }
}

/** Serves metrics at /metrics until it is closed. @throws Error if it cannot listen */
export async function serveMetrics(
  metrics: Metrics,
  address: Address,
): Promise<{ url: string; close: () => void }> {
  const server = createServer(({ method, url }, response) => {
    if (method !== 'GET' || url !== '/metrics') return void response.writeHead(404).end();
    response.setHeader('content-type', 'text/plain; version=0.0.4; charset=utf-8');
    response.end(metrics.text(Date.now() / 1_000));
  });
  const url = await listen(server, address).catch(({ message }) => {
    throw new Error(`cannot serve metrics: ${message}`);
  });
  server.on('error', () => {}); // such as too many open files: Prometheus tries again
  return {
    url: `${url}/metrics`,
    close: () => {
      server.close();
      server.closeAllConnections();
    },
  };
}
