import { createServer } from 'node:http';
import { type Address, listen } from '../http/address.ts';

const PREFIX = 'transparency_log_monitor_';

/** What Prometheus collects of a monitor. Times are in seconds since 1970. */
export class Metrics {
  /** 0 until the first check, so that an alert on its age also sees a monitor that never succeeds. */
  checkedAt = 0;
  size: number | undefined;
  cosignedAt: number | undefined;
  checksFailed = 0;
  hasAlarm = false;

  /** The text format of Prometheus; what is not known has no value. */
  text(now: number): string {
    const { checkedAt, size, cosignedAt, checksFailed, hasAlarm } = this;
    const age = cosignedAt === undefined ? undefined : Math.max(0, now - cosignedAt);
    const metrics: [name: string, type: string, help: string, value: number | undefined][] = [
      ['last_success_timestamp_seconds', 'gauge', 'When the log was last checked.', checkedAt],
      ['size', 'gauge', 'The number of events that were checked.', size],
      ['cosignature_age_seconds', 'gauge', 'The age of the newest cosignature.', age],
      ['checks_failed_total', 'counter', 'Checks that failed.', checksFailed],
      ['alarm', 'gauge', '1 after an alarm.', Number(hasAlarm)],
    ];
    return metrics
      .filter(([, , , value]) => value !== undefined)
      .map(([name, type, help, value]) => {
        const metric = PREFIX + name;
        return `# HELP ${metric} ${help}\n# TYPE ${metric} ${type}\n${metric} ${value}\n`;
      })
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
