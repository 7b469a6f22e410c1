/* The plan channel: Negotiating -> Proposed -> Frozen -> (void) -> Negotiating.  docs/protocol.md has the rules, README.md
 * says how to read this file.
 *
 *   Rank 0..N-1  --- up[k]: REQ, LEAVE ------->  Root (the coordinator of rank 0)
 *                <-- down[k]: LIST, LEFT ------
 *   Rank  <--- slot[]: one collective each, flags ORed over all ranks --->  Rank
 *
 * Rounds and events never end: rounds and generations are kept modulo 2, so the state space is finite without a bound on
 * rounds. No rank is two rounds ahead of another: to complete a round it needs every rank's arrival in it. Steps that touch nothing which another
 * rank reads are joined to the next one that does (atomic). A rank that dies without a word is not here: its peers have the
 * deadline, after which they leave the model (the group is poisoned). */

#ifndef N
#define N 2
#endif
#define T 2 /* tensors; in Frozen one bucket each */
#define EVERY 3 /* mask of all tensors */

#define NEGOTIATING 0
#define PROPOSED 1
#define FROZEN 2

#define VOID 1 /* flags of a collective */
#define FAIL 2

#define NO_NEWS 0 /* what the last list of a round carries besides its tensor */
#define PROPOSAL 1
#define COMMIT 2

#define NO_REPLY 0 /* what the last request of a round carries besides its tensor */
#define CONFIRM 1
#define REFUSE 2

#define OPEN 0 /* outcome of a round */
#define CLEAN 1
#define ERROR 2

#define ON_NAMED 0 /* the channel that a collective belongs to */
#define ON_PLAN 1

mtype = { REQ, LIST, LEAVE, LEFT };

typedef Slot { /* one collective: what the first rank to arrive says it is, and the flags of all who arrived */
  byte what;
  byte arrived;
  byte flags;
  byte readers
};
typedef Record { /* what an observer of the whole job notes about a round; the protocol does not read it */
  bit control; /* a REQ or LIST was sent */
  bit change;  /* some rank's world changed */
  bit trouble; /* some rank failed or left */
  byte outcome;
  byte closed
};

#ifdef EVENTS /* at most so many events; without it there is no limit */
byte events = EVENTS;
#define MAY_HAPPEN (events > 0)
#define HAPPENS events--
#else
#define MAY_HAPPEN true
#define HAPPENS skip
#endif

Slot slot[8]; /* [round parity][position in the round]: two for the round, two more for what was dropped */
Record record[2];

chan up[N] = [4] of { mtype, byte, byte, bit, bit, byte }; /* tensor, round, dropped, last, reply */
chan down[N] = [4] of { mtype, byte, bit, byte, byte };    /* tensor, last, news, generation */

#define FAREWELL down[me]?[LEFT,0,0,0,0]

#define PARITY (round & 1)
#define SLOT slot[PARITY * 4 + position]
#define RECORD record[PARITY]

/* A moment at which anything may happen to a rank. It precedes every bucket and every request, so that the last of a
 * round still carries what happened. */
inline anything() {
  if
  :: true
  :: MAY_HAPPEN && !changed -> HAPPENS; changed = 1; RECORD.change = 1
  :: MAY_HAPPEN && !(flags & FAIL) -> HAPPENS; flags = flags | FAIL; RECORD.trouble = 1
  :: MAY_HAPPEN -> HAPPENS; RECORD.trouble = 1; goto leave
  fi
}

/* Enter a collective with this rank's flags. All who enter must mean the same one: this is the agreement property. */
inline launch(channel, tensor, number, own_flags) {
  d_step {
    assert(SLOT.arrived < N);
    if
    :: SLOT.arrived == 0 -> SLOT.what = channel + 2 * tensor + 4 * number + 8 * round
    :: else -> assert(SLOT.what == channel + 2 * tensor + 4 * number + 8 * round)
    fi;
    SLOT.arrived++;
    SLOT.flags = SLOT.flags | own_flags
  }
}

/* Wait until all have entered, then read the flags of all. An arrival counts before a farewell. */
inline complete() {
  if
#ifdef MUTATE_FLAGS_EARLY
  :: SLOT.arrived > 0 -> seen = SLOT.flags; (SLOT.arrived == N || FAREWELL)
#else
  :: SLOT.arrived == N -> seen = SLOT.flags
#endif
  :: SLOT.arrived < N && FAREWELL -> goto left
  fi;
  d_step {
    SLOT.readers++;
    if
    :: SLOT.readers == N -> SLOT.what = 0; SLOT.arrived = 0; SLOT.flags = 0; SLOT.readers = 0
    :: else
    fi
  }
}

inline conclude(result) {
  d_step {
    assert(RECORD.outcome == OPEN || RECORD.outcome == result); /* all ranks end the round alike */
    assert(result == CLEAN || RECORD.trouble);                  /* no error without a cause: the next round works */
    RECORD.outcome = result
  }
}

/* The named channel as the plan uses it: submit all of `wanted` in any order, execute in the order of the lists. */
inline negotiate(dropped, base) {
  to_send = wanted;
  position = base;
  finished = 0;
  do
  :: atomic {
      to_send != 0 && !finished ->
      anything();
      if
      :: (to_send & 1) -> tensor_out = 0
      :: (to_send & 2) -> tensor_out = 1
      fi;
      to_send = to_send & ~(1 << tensor_out);
      reply = NO_REPLY;
      if
      :: to_send == 0 && !dropped && state == PROPOSED ->
        reply = (changed -> REFUSE : CONFIRM);
        confirmed = !changed
      :: else
      fi;
      if
      :: to_send == 0 && !dropped -> changed = 0 /* this round's requests are of the new world */
      :: else
      fi;
      RECORD.control = 1;
      up[me]!REQ, tensor_out, round, dropped, (to_send == 0), reply
    }
  :: FAREWELL -> goto left
  :: atomic {
      down[me]?LIST, tensor_in, finished, news, number ->
      launch(ON_NAMED, tensor_in, 0, (flags & FAIL));
      position++;
      if
      :: finished -> break
      :: else
      fi
    }
  od;
  atomic {
  assert(to_send == 0);
  count = position;
  position = base;
  do
  :: position < count ->
    complete();
    failed = failed | (seen & FAIL);
    position++
  :: else -> break
  od;
  executed = executed | wanted
  }
}

proctype Rank(byte me) {
  byte round, state = NEGOTIATING, generation, proposal, next_state;
  byte flags, seen, failed, position, count, wanted, executed, to_send, reply, tensor_out, tensor_in, news, number, quiet;
  bit changed, confirmed, finished;

begin:
  flags = 0; failed = 0; executed = 0; wanted = 0; next_state = state; news = NO_NEWS;
  if
  :: state == FROZEN ->
    position = 0;
    do
    :: atomic {
        position < T ->
        anything();
        launch(ON_PLAN, position, generation, (flags | changed));
        assert(confirmed); /* nobody is in a plan that it did not accept */
        position++
      }
    :: position == T -> break
    od;
    atomic {
#ifdef MUTATE_NO_CARRIER
    if /* the last bucket left before the round was closed */
    :: RECORD.trouble = 1; failed = FAIL
    :: true
    fi;
#endif
#ifdef MUTATE_LEAVE_LATE
    if /* with its last bucket under way */
    :: MAY_HAPPEN -> HAPPENS; RECORD.trouble = 1; goto leave
    :: true
    fi;
#endif
    position = 0;
    do
    :: position < T ->
      complete();
#ifdef MUTATE_VOID_LOCAL_ONLY
      seen = (seen & FAIL) | changed;
#endif
      failed = failed | (seen & FAIL);
      if
      :: (seen & VOID) -> wanted = wanted | (1 << position); next_state = NEGOTIATING
      :: else -> executed = executed | (1 << position)
      fi;
      position++
    :: else -> break
    od
    }
    if
    :: wanted != 0 && !failed ->
#ifndef MUTATE_VOID_DROPS
      negotiate(1, T);
#endif
      assert(news == NO_NEWS)
    :: else
    fi
  :: else ->
    wanted = EVERY;
    negotiate(0, 0);
    if
    :: news == PROPOSAL ->
      proposal = number;
      next_state = PROPOSED
    :: news == COMMIT ->
      assert(state == PROPOSED && number == proposal);
      generation = number;
      next_state = FROZEN
    fi;
#ifdef MUTATE_COMMIT_EARLY
    if /* in the plan as soon as this rank itself has confirmed it */
    :: state == PROPOSED && confirmed -> generation = proposal; next_state = FROZEN
    :: else
    fi
#endif
  fi;

  atomic { /* close the round */
    assert(failed || executed == EVERY); /* no request is lost */
    assert(!(state == FROZEN && next_state == FROZEN) || !RECORD.control); /* a steady round has no control message */
    if /* two rounds in which no world changes are enough to freeze */
    :: state == FROZEN || RECORD.change -> quiet = 0
    :: else -> quiet++
    fi;
    assert(quiet < 2 || next_state == FROZEN);
    if
    :: next_state == FROZEN -> quiet = 0
    :: else
    fi;
    if
    :: failed -> conclude(ERROR)
    :: else -> conclude(CLEAN)
    fi;
    RECORD.closed++;
    if
    :: RECORD.closed == N ->
      RECORD.control = 0; RECORD.change = 0; RECORD.trouble = 0; RECORD.outcome = OPEN; RECORD.closed = 0
    :: else
    fi;
    state = next_state;
    round = 1 - round;
    position = 0; count = 0; seen = 0; tensor_in = 0; tensor_out = 0; reply = 0; number = 0; finished = 0; executed = 0;
    wanted = 0; flags = 0; failed = 0; news = 0; next_state = 0; to_send = 0;
    if
    :: state != PROPOSED -> proposal = 0
    :: else
    fi;
    if
    :: state != FROZEN -> generation = 0; confirmed = 0
    :: else
    fi;
    goto begin
  }


leave: /* before the last bucket or request of a round, so that nobody can end this round clean */
#ifdef MUTATE_LEAVE_SILENT
  goto gone;
#endif
  up[me]!LEAVE, 0, 0, 0, 0, 0;
  do
  :: down[me]?LIST, _, _, _, _
  :: FAREWELL -> break
  od;
left:
  conclude(ERROR);
gone:
  skip
}

#define TELL(message, a, b, c, d) \
  k = 0; \
  do \
  :: k < N -> down[k]!message, a, b, c, d; k++ \
  :: else -> break \
  od

/* List a tensor when all have asked for it. A list may be read at any later time, so nothing is lost by sending to all at once. */
inline answer() {
  submitted[tensor]++;
  lasts = lasts + last;
  confirms = confirms + (reply == CONFIRM);
  if
  :: submitted[tensor] == N ->
    submitted[tensor] = 0;
    news = NO_NEWS;
    if
    :: lasts == N && !dropped ->
      if
#ifdef MUTATE_COMMIT_UNCONFIRMED
      :: pending && confirms > 0 ->
#else
      :: pending && confirms == N ->
#endif
        news = COMMIT; pending = 0
      :: else -> news = PROPOSAL; pending = 1; generation = 1 - generation
      fi
    :: lasts == N && dropped -> assert(!pending)
    :: else
    fi;
    record[round].control = 1;
    last = (lasts == N);
    if
    :: last -> lasts = 0; confirms = 0
    :: else
    fi;
    TELL(LIST, tensor, last, news, generation)
  :: else
  fi;
  tensor = 0; round = 0; dropped = 0; last = 0; reply = 0; news = 0; k = 0
}

proctype Root() {
  byte submitted[T], tensor, round, reply, lasts, confirms, news, generation, k;
  bit dropped, last, pending;

end:
  do
  :: atomic { up[0]?REQ, tensor, round, dropped, last, reply -> answer() }
  :: atomic { up[1]?REQ, tensor, round, dropped, last, reply -> answer() }
  :: atomic { up[0]?LEAVE, _, _, _, _, _ -> TELL(LEFT, 0, 0, 0, 0); break }
  :: atomic { up[1]?LEAVE, _, _, _, _, _ -> TELL(LEFT, 0, 0, 0, 0); break }
#if N > 2
  :: atomic { up[2]?REQ, tensor, round, dropped, last, reply -> answer() }
  :: atomic { up[2]?LEAVE, _, _, _, _, _ -> TELL(LEFT, 0, 0, 0, 0); break }
#endif
  od
}

init {
  byte k;
  atomic {
    run Root();
    do
    :: k < N -> run Rank(k); k++
    :: else -> break
    od
  }
}
