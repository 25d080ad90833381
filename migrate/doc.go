// Package migrate moves locks from one backend to another while they are in use: a
// [Locker] over two, of which each process uses the old one, both, or the new one.
//
// Safety: processes in neighbouring phases (old and both, both and new) exclude each
// other, and tokens of a key rise through all phases and back, as long as each of the two
// stores keeps what it promises by itself. What one of them loses, the two of
// them lose where only that one is used. Processes two phases apart do not exclude each
// other: each shows its phase in both stores, and one that would be two steps from
// another that lives is refused. A process that cannot reach a store for longer than 15 s
// is not seen there.
//
// In a rolling deploy, or by [Locker.SetPhase], all processes go from old to both, and
// then all from both to new. Each phase must last until all leases of the one before are
// over or were renewed. The way back is the same.
package migrate
