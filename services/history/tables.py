"""The history's tables, and every statement that touches them.

`bytes` is computed by SQLite from what it stores, and the totals are kept by triggers: neither can drift from the rows.
`version` rises with each change of a row, so that a prune deletes only what it archived.
"""

from taskyard.services.database import Migration

_CREATE = """
create table attempt_record (
  run text not null, task text not null, attempt integer not null,
  status text not null, start real not null, end real, cost_usd real,
  output text not null, error text not null, metrics text not null,
  written real not null, version integer not null,
  bytes integer not null generated always as (
    length(cast(run as blob)) + length(cast(task as blob)) + length(cast(status as blob)) + length(cast(output as blob))
    + length(cast(error as blob)) + length(cast(metrics as blob)) + 8 * 4) stored,
  primary key (run, task, attempt)
);
create index attempt_record_start on attempt_record (start);
create index attempt_record_end on attempt_record (end) where end is not null;
create index attempt_record_written on attempt_record (written, bytes);
create table attempt_total (
  one integer primary key check (one = 1), entries integer not null, bytes integer not null,
  pruned integer not null, archived integer not null, last_prune real
);
insert into attempt_total values (1, 0, 0, 0, 0, null);
create table attempt_archive (
  file text primary key, records integer not null, bytes integer not null,
  first_end real not null, last_end real not null
);
create trigger attempt_added after insert on attempt_record begin
  update attempt_total set entries = entries + 1, bytes = bytes + new.bytes;
end;
create trigger attempt_changed after update on attempt_record begin
  update attempt_total set bytes = bytes + new.bytes - old.bytes;
end;
create trigger attempt_removed after delete on attempt_record begin
  update attempt_total set entries = entries - 1, bytes = bytes - old.bytes;
end;
"""
MIGRATIONS = (Migration("history", 1, _CREATE),)

ADD = """
insert into attempt_record (run, task, attempt, status, start, end, cost_usd, output, error, metrics, written, version)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1)
on conflict (run, task, attempt) do update set
  start = min(start, excluded.start),
  end = case when status = excluded.status then coalesce(end, excluded.end) else excluded.end end,
  status = excluded.status, cost_usd = excluded.cost_usd,
  output = excluded.output, error = excluded.error, metrics = excluded.metrics, written = excluded.written,
  version = version + 1
"""
UPDATE = """
update attempt_record set {fields}, written = ?, version = version + 1 where run = ? and task = ? and attempt = ?
"""
GET = """
select run, task, attempt, status, start, end, cost_usd, output, error, metrics
from attempt_record where run = ? and task = ? and attempt = ?
"""
LIST = """
select task, attempt, run, status, start, end, cost_usd, bytes from attempt_record
where (?1 is null or status = ?1) and (?2 is null or task = ?2) and (?3 is null or start >= ?3)
  and (?4 is null or start < ?4)
order by start desc, run, task, attempt desc limit ?5 offset ?6
"""
TOTALS = "select entries, bytes, pruned, archived, last_prune from attempt_total"
GROWTH = "select coalesce(sum(bytes), 0) from attempt_record where written > ?"
OLDEST_END = "select min(end) from attempt_record where end is not null"
OLDEST_FIRST = """
select run, task, attempt, version, end, bytes from attempt_record where end is not null
order by end, run, task, attempt
"""
DELETE = "delete from attempt_record where run = ? and task = ? and attempt = ? and version = ?"
ARCHIVED = """
insert into attempt_archive values (?, ?, ?, ?, ?) on conflict (file) do nothing
"""
COUNT_PRUNED = "update attempt_total set pruned = pruned + ?, archived = archived + ?, last_prune = ?"
