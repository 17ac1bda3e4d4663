import { mkdtempSync } from 'node:fs';
import { newEventId, NO_STREAM } from '@event-sourced/event-log';
import { openSqliteStore } from '@event-sourced/event-log/sqlite';
import { Follower, TableView, ViewFile } from '@event-sourced/event-log/views';

const columns = { list: 'TEXT', item: 'TEXT' };
const table = { name: 'toDo', applicationId: 1, version: 1, columns, keyColumns: 2, cacheKiB: 64 };
const fold = ({ type, data: { list, item } }, rows) =>
  type === 'ItemAdded' ? rows.put([list, item]) : rows.delete(list, item);
class ToDo extends TableView {
  static open = async (file) => new ToDo(await ViewFile.open(file, table), { table, fold, title: 'to-do list' });
  print = (list) => this.scan([list, ''], ([, item]) => console.log('-', item) === undefined);
}

const dir = mkdtempSync('/tmp/to-do-');
const [store, view] = [await openSqliteStore({ file: `${dir}/log.db` }), await ToDo.open(`${dir}/view.db`)];
const event = (type, item) => ({ id: newEventId(), type, data: { list: 'home', item }, metadata: {} });
const added = await store.append('list-home', event('ItemAdded', 'bread'), NO_STREAM);
await store.append('list-home', event('ItemAdded', 'milk'), added.revision);
await store.append('list-home', event('ItemDone', 'milk'), added.revision).catch(({ message }) => console.log(message));
await new Follower({ store, view }).reached(await store.lastPosition());
view.print('home');
for (const open of [view, store]) await open.close();
