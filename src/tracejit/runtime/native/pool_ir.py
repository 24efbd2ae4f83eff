"""LLVM assembly of the thread pool: chunk stealing, the workers, and one parallel job.

The words of a pool are named in `native_ir.POOL`. CLOCK stands for reading a clock into %now, NEAR for what it gains
in about a millisecond.
"""

from __future__ import annotations

__all__ = ["POOL_IR"]

POOL_IR = """
; for (; n > 0; n--) pause();                     -- lets Python find out how long a pause takes
define void @tracejit_spin(i64 %n) nounwind {
entry:
  br label %loop
loop:
  %i = phi i64 [ %n, %entry ], [ %j, %loop ]
  PAUSE
  %j = sub i64 %i, 1
  %more = icmp sgt i64 %j, 0
  br i1 %more, label %loop, label %done
done:
  ret void
}

; Run chunks of the open job until none is left: first the own ones, then the others'.
;   if (worker >= threads) return;                         -- there are more than the job has memory for
;   for (k = 0; k < threads; k++) {
;     cell = cells[(worker + k) % threads];
;     while (cell.next < cell.end && (c = cell.next++) < cell.end) {
;       if (backwards) c = cell.begin + cell.end - 1 - c;
;       lo = c * chunk;  code = fn(args, lo, min(lo + chunk, extent), worker);
;       if (code) error = unsigned_min(error, c << 32 | code);   -- the first failing chunk wins
;   } }
define internal void @work(ptr %pool, i64 %worker) nounwind {
entry:
  %threads.p = getelementptr i64, ptr %pool, i64 37
  %threads = load i64, ptr %threads.p
  %wanted = icmp slt i64 %worker, %threads
  br i1 %wanted, label %begin, label %done
begin:
  %fn.p = getelementptr i64, ptr %pool, i64 32
  %fn = load ptr, ptr %fn.p
  %args.p = getelementptr i64, ptr %pool, i64 33
  %args = load ptr, ptr %args.p
  %extent.p = getelementptr i64, ptr %pool, i64 34
  %extent = load i64, ptr %extent.p
  %chunk.p = getelementptr i64, ptr %pool, i64 35
  %chunk = load i64, ptr %chunk.p
  %backwards.p = getelementptr i64, ptr %pool, i64 38
  %backwards.word = load i64, ptr %backwards.p
  %backwards = trunc i64 %backwards.word to i1
  %error.p = getelementptr i64, ptr %pool, i64 40
  br label %victim
victim:
  %k = phi i64 [ 0, %begin ], [ %k.next, %victim.done ]
  %sum = add i64 %worker, %k
  %wraps = icmp sge i64 %sum, %threads
  %wrapped = sub i64 %sum, %threads
  %v = select i1 %wraps, i64 %wrapped, i64 %sum
  %v8 = shl i64 %v, 3
  %cell.i = add i64 %v8, 48
  %next.p = getelementptr i64, ptr %pool, i64 %cell.i
  %end.p = getelementptr i64, ptr %next.p, i64 1
  %end = load i64, ptr %end.p
  %begin.p = getelementptr i64, ptr %next.p, i64 2
  %first = load i64, ptr %begin.p
  %ends = add i64 %first, %end
  %mirror = sub i64 %ends, 1
  br label %take
take:
  %seen = load atomic i64, ptr %next.p monotonic, align 8
  %maybe = icmp slt i64 %seen, %end
  br i1 %maybe, label %claim, label %victim.done
claim:
  %turn = atomicrmw add ptr %next.p, i64 1 monotonic
  %got = icmp slt i64 %turn, %end
  br i1 %got, label %run, label %victim.done
run:
  %last.first = sub i64 %mirror, %turn
  %c = select i1 %backwards, i64 %last.first, i64 %turn
  %lo = mul i64 %c, %chunk
  %lo.end = add i64 %lo, %chunk
  %cut = icmp slt i64 %lo.end, %extent
  %hi = select i1 %cut, i64 %lo.end, i64 %extent
  %code = call i32 %fn(ptr %args, i64 %lo, i64 %hi, i64 %worker)
  %ok = icmp eq i32 %code, 0
  br i1 %ok, label %take, label %failed
failed:
  %code64 = zext i32 %code to i64
  %c32 = shl i64 %c, 32
  %mark = or i64 %c32, %code64
  %old = atomicrmw umin ptr %error.p, i64 %mark monotonic
  br label %take
victim.done:
  %k.next = add i64 %k, 1
  %more = icmp slt i64 %k.next, %threads
  br i1 %more, label %victim, label %done
done:
  ret void
}

define internal i64 @clock(i64 %before) nounwind noinline {
  CLOCK
  ret i64 %now
}

; The life of a worker thread: join an open job it has not seen, else spin a little, else sleep. To be woken takes
; longer than many jobs do, so it spins for longer where that would have been enough the last time that it slept.
;   for (near = true;;) { for (budget = near ? patience * spins : spins; budget; budget--) {
;       s = state;  if (stop) return;
;       if (open(s) && generation(s) != last) {
;           if (cas(state, s, s + 2)) {
;               if (slept) near = clock() - finished < NEAR;
;               set_float_mode(job_float_mode); work(); state -= 2; finished = clock(); } }
;       else pause(); }
;     lock; sleepers++; while (!stop && !new_job()) wait; sleepers--; unlock; slept = true; }
define void @tracejit_worker(ptr %pool, i64 %worker) nounwind {
entry:
  %stop.p = getelementptr i64, ptr %pool, i64 8
  %spins.p = getelementptr i64, ptr %pool, i64 10
  %mutex.p = getelementptr i64, ptr %pool, i64 11
  %mutex = load ptr, ptr %mutex.p
  %cond.p = getelementptr i64, ptr %pool, i64 12
  %cond = load ptr, ptr %cond.p
  %sleepers.p = getelementptr i64, ptr %pool, i64 16
  %patience.p = getelementptr i64, ptr %pool, i64 17
  %started = call i64 @clock(i64 0)
  br label %fresh
fresh:
  %last = phi i64 [ 0, %entry ], [ %last, %woken ], [ %generation, %leave ]
  %since = phi i64 [ %started, %entry ], [ %since, %woken ], [ %finished, %leave ]
  %near = phi i1 [ 1, %entry ], [ %near, %woken ], [ %near.now, %leave ]
  %slept = phi i1 [ 0, %entry ], [ 1, %woken ], [ 0, %leave ]
  %few = load i64, ptr %spins.p
  %patience = load i64, ptr %patience.p
  %many = mul i64 %few, %patience
  %spins = select i1 %near, i64 %many, i64 %few
  br label %poll
poll:
  %budget = phi i64 [ %spins, %fresh ], [ %budget.next, %idle ], [ %budget, %join ]
  %s = load atomic i64, ptr %pool acquire, align 8
  %stop = load atomic i64, ptr %stop.p acquire, align 8
  %stopped = icmp ne i64 %stop, 0
  br i1 %stopped, label %end, label %look
look:
  %open = trunc i64 %s to i1
  %generation = lshr i64 %s, 16
  %unseen = icmp ne i64 %generation, %last
  %joinable = and i1 %open, %unseen
  br i1 %joinable, label %join, label %idle
join:
  %s.joined = add i64 %s, 2
  %pair = cmpxchg ptr %pool, i64 %s, i64 %s.joined acq_rel monotonic
  %joined = extractvalue { i64, i1 } %pair, 1
  br i1 %joined, label %leave, label %poll
leave:
  %begun = call i64 @clock(i64 %since)
  %gap = sub i64 %begun, %since
  %short = icmp ult i64 %gap, NEAR
  %near.now = select i1 %slept, i1 %short, i1 %near
  %mode.p = getelementptr i64, ptr %pool, i64 36
  %mode = load i64, ptr %mode.p
  call void @set_float_mode(i64 %mode)
  call void @work(ptr %pool, i64 %worker)
  %s.left = atomicrmw sub ptr %pool, i64 2 release
  %finished = call i64 @clock(i64 %begun)
  br label %fresh
idle:
  PAUSE
  %budget.next = sub i64 %budget, 1
  %again = icmp sgt i64 %budget.next, 0
  br i1 %again, label %poll, label %sleep
sleep:
  %r0 = call i32 @tracejit_x_pthread_mutex_lock(ptr %mutex)
  %n0 = atomicrmw add ptr %sleepers.p, i64 1 seq_cst
  br label %check
check:
  %s2 = load atomic i64, ptr %pool seq_cst, align 8
  %stop2 = load atomic i64, ptr %stop.p seq_cst, align 8
  %stopped2 = icmp ne i64 %stop2, 0
  %open2 = trunc i64 %s2 to i1
  %generation2 = lshr i64 %s2, 16
  %unseen2 = icmp ne i64 %generation2, %last
  %joinable2 = and i1 %open2, %unseen2
  %wake = or i1 %stopped2, %joinable2
  br i1 %wake, label %woken, label %wait
wait:
  %r1 = call i32 @tracejit_x_pthread_cond_wait(ptr %cond, ptr %mutex)
  br label %check
woken:
  %n1 = atomicrmw sub ptr %sleepers.p, i64 1 seq_cst
  %r2 = call i32 @tracejit_x_pthread_mutex_unlock(ptr %mutex)
  br label %fresh
end:
  ret void
}

; Wake every sleeping worker.
define void @tracejit_wake(ptr %pool) nounwind {
entry:
  %mutex.p = getelementptr i64, ptr %pool, i64 11
  %mutex = load ptr, ptr %mutex.p
  %cond.p = getelementptr i64, ptr %pool, i64 12
  %cond = load ptr, ptr %cond.p
  %r0 = call i32 @tracejit_x_pthread_mutex_lock(ptr %mutex)
  %r1 = call i32 @tracejit_x_pthread_cond_broadcast(ptr %cond)
  %r2 = call i32 @tracejit_x_pthread_mutex_unlock(ptr %mutex)
  ret void
}

; Keep workers off the caller's CPU. A woken thread is often put on the CPU of the one that woke it;
; there it waits for, or interrupts, the caller it should help, until the next rebalancing.
;   if (!masks) return;  cpu = sched_getcpu();  if (cpu == caller_cpu || cpu not in 0..1023) return;
;   caller_cpu = cpu;  for (w = 1; w < threads; w++) sched_setaffinity(ids[w], 128, masks[cpu]);
define internal void @spread(ptr %pool) nounwind noinline {
entry:
  %masks.p = getelementptr i64, ptr %pool, i64 14
  %masks = load ptr, ptr %masks.p
  %none = icmp eq ptr %masks, null
  br i1 %none, label %done, label %where
where:
  %cpu = call i32 @tracejit_x_sched_getcpu()
  %cpu64 = sext i32 %cpu to i64
  %last.p = getelementptr i64, ptr %pool, i64 13
  %last = load i64, ptr %last.p
  %moved = icmp ne i64 %cpu64, %last
  %known = icmp ult i64 %cpu64, 1024
  %go = and i1 %moved, %known
  br i1 %go, label %begin, label %done
begin:
  store i64 %cpu64, ptr %last.p
  %mask.at = shl i64 %cpu64, 7
  %mask = getelementptr i8, ptr %masks, i64 %mask.at
  %ids.p = getelementptr i64, ptr %pool, i64 15
  %ids = load ptr, ptr %ids.p
  %threads.p = getelementptr i64, ptr %pool, i64 9
  %threads = load i64, ptr %threads.p
  br label %next
next:
  %w = phi i64 [ 1, %begin ], [ %w.next, %place ]
  %more = icmp slt i64 %w, %threads
  br i1 %more, label %place, label %done
place:
  %id.p = getelementptr i32, ptr %ids, i64 %w
  %id = load i32, ptr %id.p
  %r = call i32 @tracejit_x_sched_setaffinity(i32 %id, i64 128, ptr %mask)
  %w.next = add i64 %w, 1
  br label %next
done:
  ret void
}

; Run one kernel over [0, extent) with every thread that shows up, of the first `most` (0: of all).
;   if (!try_lock(busy)) return fn(args, 0, extent, 0);        -- another caller has the pool
;   if (most) threads = min(threads, most);
;   per = ceil(extent / (coarse ? threads : 4 * threads));
;   chunk = max(1, ceil(per / grain)) * grain;  n = ceil(extent / chunk);
;   cells[v] = { ceil(n * v / threads), ceil(n * (v + 1) / threads), ceil(n * v / threads) };
;   backwards = generation & 1;   -- every other job begins with what the one before ended with, which is in the caches
;   open the job; spread and wake sleepers; work(pool, 0); close it; wait for those inside; unlock;
define internal i32 @parallel(ptr %pool, ptr %fn, ptr %args, i64 %extent, i64 %grain,
                              i1 %coarse, i64 %most) nounwind {
entry:
  %busy.p = getelementptr i64, ptr %pool, i64 24
  %pair = cmpxchg ptr %busy.p, i64 0, i64 1 acquire monotonic
  %mine = extractvalue { i64, i1 } %pair, 1
  br i1 %mine, label %plan, label %serial
serial:
  %code.serial = call i32 %fn(ptr %args, i64 0, i64 %extent, i64 0)
  ret i32 %code.serial
plan:
  %threads.p = getelementptr i64, ptr %pool, i64 9
  %all = load i64, ptr %threads.p
  %most.less = sub i64 %most, 1                            ; 0: more than any
  %few = icmp ult i64 %most.less, %all
  %threads = select i1 %few, i64 %most, i64 %all
  %threads4 = shl i64 %threads, 2
  %parts = select i1 %coarse, i64 %threads, i64 %threads4
  %extent.up = add i64 %extent, %parts
  %extent.up1 = sub i64 %extent.up, 1
  %per = sdiv i64 %extent.up1, %parts
  %per.up = add i64 %per, %grain
  %per.up1 = sub i64 %per.up, 1
  %grains = sdiv i64 %per.up1, %grain
  %chunk = mul i64 %grains, %grain
  %n.up = add i64 %extent, %chunk
  %n.up1 = sub i64 %n.up, 1
  %n = sdiv i64 %n.up1, %chunk
  %round = sub i64 %threads, 1
  br label %cells
cells:
  %v = phi i64 [ 0, %plan ], [ %v.next, %cells ]
  %from = phi i64 [ 0, %plan ], [ %to, %cells ]
  %v.next = add i64 %v, 1
  %share = mul i64 %n, %v.next
  %share.up = add i64 %share, %round
  %to = sdiv i64 %share.up, %threads
  %v8 = shl i64 %v, 3
  %cell.i = add i64 %v8, 48
  %next.p = getelementptr i64, ptr %pool, i64 %cell.i
  %end.p = getelementptr i64, ptr %next.p, i64 1
  store i64 %from, ptr %next.p
  store i64 %to, ptr %end.p
  %begin.p = getelementptr i64, ptr %next.p, i64 2
  store i64 %from, ptr %begin.p
  %more = icmp slt i64 %v.next, %threads
  br i1 %more, label %cells, label %open
open:
  %fn.p = getelementptr i64, ptr %pool, i64 32
  store ptr %fn, ptr %fn.p
  %args.p = getelementptr i64, ptr %pool, i64 33
  store ptr %args, ptr %args.p
  %extent.p = getelementptr i64, ptr %pool, i64 34
  store i64 %extent, ptr %extent.p
  %chunk.p = getelementptr i64, ptr %pool, i64 35
  store i64 %chunk, ptr %chunk.p
  %workers.p = getelementptr i64, ptr %pool, i64 37
  store i64 %threads, ptr %workers.p
  %error.p = getelementptr i64, ptr %pool, i64 40
  store i64 -1, ptr %error.p
  %mode.p = getelementptr i64, ptr %pool, i64 36
  %mode = call i64 @float_mode()
  store i64 %mode, ptr %mode.p
  %s = load atomic i64, ptr %pool monotonic, align 8
  %generation = lshr i64 %s, 16
  %generation.next = add i64 %generation, 1
  %backwards.p = getelementptr i64, ptr %pool, i64 38
  %backwards = and i64 %generation.next, 1
  store i64 %backwards, ptr %backwards.p
  %s.up = shl i64 %generation.next, 16
  %s.open = or i64 %s.up, 1
  store atomic i64 %s.open, ptr %pool seq_cst, align 8
  %sleepers.p = getelementptr i64, ptr %pool, i64 16
  %sleepers = load atomic i64, ptr %sleepers.p seq_cst, align 8
  %asleep = icmp sgt i64 %sleepers, 0
  br i1 %asleep, label %wake, label %help
wake:
  call void @spread(ptr %pool)
  call void @tracejit_wake(ptr %pool)
  br label %help
help:
  call void @work(ptr %pool, i64 0)
  %s.was = atomicrmw and ptr %pool, i64 -2 acq_rel
  br label %join
join:
  %tries = phi i64 [ 0, %help ], [ %tries.next, %joined.not ]
  %s.now = load atomic i64, ptr %pool acquire, align 8
  %inside = and i64 %s.now, 65534
  %alone = icmp eq i64 %inside, 0
  br i1 %alone, label %finish, label %pausing
pausing:
  PAUSE
  %tries.next = add i64 %tries, 1
  %long = icmp sgt i64 %tries.next, 4096
  br i1 %long, label %yield, label %joined.not
yield:                       ; somebody else may be on the core the worker needs
  %r = call i32 @tracejit_x_sched_yield()
  br label %joined.not
joined.not:
  br label %join
finish:
  %error = load atomic i64, ptr %error.p monotonic, align 8
  store atomic i64 0, ptr %busy.p release, align 8
  %clean = icmp eq i64 %error, -1
  %error32 = trunc i64 %error to i32
  %code = select i1 %clean, i32 0, i32 %error32
  ret i32 %code
}
"""
