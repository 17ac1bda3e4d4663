import { writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { chart } from './chart.ts';
import { connectionsSeries, connectionsTable } from './connections.ts';
import { BARE, CRUD, SERVICE } from './names.ts';
import { cpu, longestStall, type Measure, median, p50, p99, perSecond } from './results.ts';
import type { Bench } from './setUp.ts';
import { markdownTable } from './table.ts';

/**
 * Prints the medians as tables, and writes every value to the file of `--out`. `coresOfOthers`: what other
 * processes took of the machine meanwhile.
 */
export function report(bench: Bench, coresOfOthers: number): void {
  const { results, generator, options } = bench;
  const { rates, figures } = results;
  const { rounds, seconds, events, memory, out } = options;
  const machine = { node: process.version, cpu: cpus()[0]?.model, cores: cpus().length, coresOfOthers };
  const what = memory
    ? `${memory} s of POST`
    : `${rounds} rounds of ${seconds} s; full log: ${events} events`;
  console.log(`
Node ${machine.node}, ${machine.cores} cores (${machine.cpu}), of which other processes took ${coresOfOthers.toFixed(2)}
load: ${generator.name}
${what}
`);
  const loads = Object.keys(rates).map((load) => {
    const mid = (measure: Measure, digits: number) => median(results.values(load, measure)).toFixed(digits);
    return {
      load,
      'per second': mid(perSecond, 0),
      'CPU µs each': mid(cpu, 0),
      'p50 ms': mid(p50, 2),
      'p99 ms': mid(p99, 2),
      'event-loop delay p99 ms': mid((rate) => rate.loopDelay.p99, 1),
      'longest stall ms': mid(longestStall, 1),
    };
  });
  if (loads.length > 0) console.log(`${markdownTable(loads)}\n`);
  if (options.only.has('connections') && !memory) reportConnections(bench);
  const rows = figures.map(({ name, goal, values }) => ({
    figure: name,
    median: median(values).toFixed(2),
    spread: `${Math.min(...values).toFixed(2)} to ${Math.max(...values).toFixed(2)}`,
    goal,
  }));
  console.log(`${markdownTable(rows)}\n`);
  const json = { machine, generator: generator.name, rounds, seconds, events, memory, rates, figures };
  writeFileSync(out, `${JSON.stringify(json, null, 2)}\n`);
  console.log(`written to ${out}`);
}

function reportConnections({ results, services, options }: Bench): void {
  const servers = [BARE, SERVICE, CRUD, ...services.slice(1).map(({ name }) => name)];
  console.log(`${markdownTable(connectionsTable(results, servers))}\n`);
  if (options.svg) writeFileSync(options.svg, chart(connectionsSeries(results, servers)));
}
