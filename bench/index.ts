// npm run bench: rounds beside references and another checkout. npm run bench -- scale: sizes of a growing log.
if (process.argv[2] === 'scale') {
  process.argv.splice(2, 1);
  await import('./scale.ts');
} else await import('./bench.ts');
