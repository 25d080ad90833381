/*
 * Redlock with ballot tokens: three nodes, two attempts A and B, and one renewal of A.
 * "make model" searches all of it, and checks that each rule is needed.
 *
 * Messages: each request to each node is carried out at any later time, or never; so is
 * the undoing of a request that the client gave up; and answers come at any time, or never.
 * Requests of one client overtake each other. Proposals are any numbers: no clock is asked.
 *
 * One of two configurations is chosen by a macro:
 *   TOKENS     Keys expire at any moment, even at once, and clients stop for any time.
 *              Nodes keep their data. Checked: tokens differ; a grant that was made before
 *              another was asked for has the smaller one; a renewal of A that is asked for
 *              after a later grant was made fails.
 *   EXCLUSION  A key expires only when the lease that it was written for is over, by its
 *              holder's clock. One node may lose all its data, once, at any moment.
 *              Checked: A and B never both hold the lock.
 *
 * Each of these leaves out one rule, and then a check must fail:
 *   INCR          tokens are the highest of counters on the nodes, not proposals (TOKENS)
 *   NO_FENCE      a node votes whatever its fence is (TOKENS)
 *   MINORITY      one vote of three is enough (both)
 *   NO_QUARANTINE a node that lost its data votes at once (EXCLUSION)
 *   EARLY_UNDO    a vote without an answer is undone, also where the attempt was won (EXCLUSION)
 *
 * Bounds: one attempt of each client, one renewal, one loss of data. That a lock is put
 * back in time, and only below a fence that stands, does not matter before there is a
 * second renewal: these two rules are not shown to be needed here. Nodes are alike, so after
 * each step they are sorted, and one of up to six like states is searched.
 */

/* What becomes of an attempt at a node. An answer that the client may or may not get is
   not told from one that it has: it counts, or not, when the client decides. */
#define NONE     0
#define ASKED    1  /* the request is under way */
#define VOTED    2  /* carried out: the node has voted for it */
#define KEPT     3  /* a vote that made the grant */
#define BARRED   4  /* undone, the request is still under way */
#define CLEARED  5  /* undone, or refused */

/* What becomes of the renewal at a node. */
#define R_NONE   0
#define R_ASKED  1
#define R_YES    2
#define R_FREE   3  /* the node has said that it is free, and may be told to put it back */
#define R_DONE   4

/* Whose lock a node has: A's as granted, B's, A's as renewed, or nobody's. */
#define A    0
#define B    1
#define A2   2
#define FREE 3

/* Of the nodes. */
byte a[3], b[3];      /* the attempts */
byte r[3];            /* the renewal */
byte told[3];         /* the fence when the node said that it is free */
byte lock[3] = FREE;
byte fence[3];
bool quarantined[3];
byte given_a[3], given_b[3]; /* by counters */

byte token[2];        /* proposed, or given by counters */
bool asked[2], granted[2], failed[2], renewed;
bool over[3];         /* the lease of A, of B, of A's renewal */
bool lost;            /* some node has lost its data */
bool before[3];       /* what had been asked for when it did */

/* For the checks. */
bool other_first[2];  /* the other one was granted before this one was asked for */
bool late_renewal;    /* a later grant was made before the renewal was asked for */

hidden byte x;        /* to swap */

#ifdef MINORITY
#define ENOUGH 1
#else
#define ENOUGH 2
#endif

/* Whether a lease has time left. Tokens do not depend on that. */
#ifdef TOKENS
#define VALID(l) (true)
#else
#define VALID(l) (!over[l])
#endif

#ifdef NO_FENCE
#define ABOVE(i, n) (true)
#else
#define ABOVE(i, n) (token[i] > fence[n])
#endif

#ifdef TOKENS
#define EXPIRES(n) (lock[n] != FREE)
#else
#define EXPIRES(n) (lock[n] != FREE && over[lock[n]])
#endif

#define SWAP(f, p, q) x = f[p]; f[p] = f[q]; f[q] = x
#ifdef INCR
#define SWAP_GIVEN(p, q) ; SWAP(given_a, p, q); SWAP(given_b, p, q)
#define KEY_GIVEN(n) + 65536 * (given_a[n] * 8 + given_b[n])
#else
#define SWAP_GIVEN(p, q)
#define KEY_GIVEN(n)
#endif
#define KEY(n) ((((((a[n] * 6 + b[n]) * 5 + r[n]) * 3 + told[n]) * 4 + lock[n]) * 6 + fence[n]) * 2 + quarantined[n] KEY_GIVEN(n))
#define ORDER(p, q) \
  if \
  :: KEY(p) > KEY(q) -> SWAP(a, p, q); SWAP(b, p, q); SWAP(r, p, q); SWAP(told, p, q); \
     SWAP(lock, p, q); SWAP(fence, p, q); SWAP(quarantined, p, q) SWAP_GIVEN(p, q) \
  :: else \
  fi
#define SORT ORDER(0, 1); ORDER(1, 2); ORDER(0, 1)

#ifdef INCR
#define ACCEPTS(i, n) (lock[n] == FREE)
#define ACCEPT(given, i, n) fence[n]++; given[n] = fence[n]
#define BAR(i, n) skip
#define TOKEN(given, i) \
  token[i] = given[0]; token[i] = (given[1] > token[i] -> given[1] : token[i]); \
  token[i] = (given[2] > token[i] -> given[2] : token[i])
#else
#define ACCEPTS(i, n) (lock[n] == FREE && ABOVE(i, n) && !quarantined[n])
#define ACCEPT(given, i, n) fence[n] = token[i]
#define BAR(i, n) fence[n] = (token[i] > fence[n] -> token[i] : fence[n])
#define TOKEN(given, i) skip
#endif

#define VOTE(m, given, i, n) \
  if \
  :: ACCEPTS(i, n) -> ACCEPT(given, i, n); lock[n] = i; m[n] = VOTED \
  :: else -> m[n] = CLEARED \
  fi

#define UNDO(m, i, n) \
  if \
  :: lock[n] == i || i == A && lock[n] == A2 -> lock[n] = FREE \
  :: else \
  fi; \
  BAR(i, n); m[n] = (m[n] == ASKED -> BARRED : CLEARED)

#define RENEW(n) \
  if \
  :: lock[n] == A || lock[n] == A2 -> \
     lock[n] = A2; fence[n] = (token[A] > fence[n] -> token[A] : fence[n]); r[n] = R_YES \
  :: lock[n] == FREE -> told[n] = fence[n]; r[n] = R_FREE \
  :: lock[n] == B -> r[n] = R_DONE \
  fi

#define FILL(n) \
  if \
  :: lock[n] == FREE && fence[n] == told[n] && token[A] >= fence[n] && VALID(A2) -> \
     lock[n] = A2; fence[n] = token[A] \
  :: else \
  fi; \
  told[n] = 0; r[n] = R_DONE

/* The votes of all nodes that have voted make the grant, or of all but one. */
#define KEEP(m, n) m[n] = (m[n] == VOTED -> KEPT : m[n])
#ifdef TOKENS
#define CHECK(i) \
  assert(!granted[1-i] || token[0] != token[1]); \
  assert(!other_first[i] || token[1-i] < token[i])
#define CHECK_RENEWAL assert(!late_renewal)
#else
#define CHECK(i) skip
#define CHECK_RENEWAL skip
#endif
#define GRANT(m, given, i) TOKEN(given, i); granted[i] = true; CHECK(i); SORT

#define VOTES(m) ((m[0] == VOTED) + (m[1] == VOTED) + (m[2] == VOTED))
#define RENEWALS ((r[0] == R_YES) + (r[1] == R_YES) + (r[2] == R_YES))
#define HOLDS_A (granted[A] && (!over[A] || renewed && !over[A2]))
#define HOLDS_B (granted[B] && !over[B])

#ifdef EARLY_UNDO
#define GIVEN_UP(i) true
#else
#define GIVEN_UP(i) failed[i]
#endif

/* What may happen between an attempt and node n. */
#define STEP(m, given, i, n) \
  :: d_step { m[n] == ASKED || m[n] == BARRED -> VOTE(m, given, i, n); SORT } \
  :: d_step { (m[n] == ASKED || m[n] == VOTED) && GIVEN_UP(i) -> UNDO(m, i, n); SORT }

#define CLIENT(m, given, i) \
  :: d_step { !asked[i] -> asked[i] = true; other_first[i] = granted[1-i]; \
     m[0] = ASKED; m[1] = ASKED; m[2] = ASKED; SORT } \
  :: d_step { asked[i] && !granted[i] && !failed[i] -> failed[i] = true } \
  :: d_step { asked[i] && !granted[i] && !failed[i] && VOTES(m) >= ENOUGH && VALID(i) -> \
     KEEP(m, 0); KEEP(m, 1); KEEP(m, 2); GRANT(m, given, i) } \
  :: d_step { asked[i] && !granted[i] && !failed[i] && VOTES(m) > ENOUGH && VALID(i) -> KEEP(m, 1); KEEP(m, 2); GRANT(m, given, i) } \
  :: d_step { asked[i] && !granted[i] && !failed[i] && VOTES(m) > ENOUGH && VALID(i) -> KEEP(m, 0); KEEP(m, 2); GRANT(m, given, i) } \
  :: d_step { asked[i] && !granted[i] && !failed[i] && VOTES(m) > ENOUGH && VALID(i) -> KEEP(m, 0); KEEP(m, 1); GRANT(m, given, i) }

#define NODE(n) \
  STEP(a, given_a, A, n) \
  STEP(b, given_b, B, n) \
  :: d_step { r[n] == R_ASKED -> RENEW(n); SORT } \
  :: d_step { r[n] == R_FREE && renewed -> FILL(n); SORT } \
  :: d_step { EXPIRES(n) -> lock[n] = FREE; SORT }

#ifdef NO_QUARANTINE
#define FORGETFUL false
#else
#define FORGETFUL true
#endif
#define LOSS(n) \
  :: d_step { !lost -> lost = true; lock[n] = FREE; fence[n] = 0; quarantined[n] = FORGETFUL; \
     before[A] = asked[A]; before[B] = asked[B]; before[A2] = (r[0] + r[1] + r[2] > 0); SORT } \
  :: d_step { quarantined[n] && (!before[A] || over[A]) && (!before[B] || over[B]) && (!before[A2] || over[A2]) -> \
     quarantined[n] = false; SORT }

active proctype world() {
#ifdef INCR
  if :: fence[2] = 0 :: fence[2] = 2 fi;
  if :: fence[1] = 0 :: fence[1] = fence[2] fi;
#else
  if :: token[A] = 1 :: token[A] = 2 fi;
  if :: token[B] = 1 :: token[B] = 2 fi;
#endif
end:
  do
  CLIENT(a, given_a, A)
  CLIENT(b, given_b, B)
  :: d_step { granted[A] && r[0] + r[1] + r[2] == 0 ->
     late_renewal = granted[B] && token[B] > token[A];
     r[0] = R_ASKED; r[1] = R_ASKED; r[2] = R_ASKED; SORT }
  :: d_step { !renewed && RENEWALS >= ENOUGH && VALID(A2) -> renewed = true; CHECK_RENEWAL }
  NODE(0) NODE(1) NODE(2)
#ifdef EXCLUSION
  :: d_step { asked[A] && !over[A] -> over[A] = true }
  :: d_step { asked[B] && !over[B] -> over[B] = true }
  :: d_step { r[0] + r[1] + r[2] > 0 && over[A] && !over[A2] -> over[A2] = true }
  LOSS(0) LOSS(1) LOSS(2)
  :: HOLDS_A && HOLDS_B -> assert(false)
#endif
  od
}
