package conformance

import (
	"context"
	"strings"

	"github.com/locker-go/locker"
)

var keyCases = []Case{
	must("Keys/prefix", "No key touches another that begins with it.",
		func(ctx context.Context, e *Env) {
			p := e.key()
			e.distinct(ctx, p, p+"/b", p+"/b/c", p+"b", p+".b", p+"-", p+"/b.lock")
		}),
	// rancher#1383, teleport#31279: slashes at the ends failed on one backend only.
	must("Keys/slashes", "Slashes are bytes like any other, at the ends and doubled too.",
		func(ctx context.Context, e *Env) {
			p := e.key()
			e.distinct(ctx, p, "/"+p, "//"+p, p+"/", p+"//", p+"///", p+"//b", p+"/b", p+"/b/")
		}),
	must("Keys/dots", "A key is no path: . and .. in it mean nothing.",
		func(ctx context.Context, e *Env) {
			p := e.key()
			e.distinct(ctx, p, p+"/.", p+"/..", p+"/../"+p, "./"+p, "../"+p, p+"/./b", p+"/b", p+".")
		}),
	must("Keys/punctuation alone", "Keys of nothing but slashes, dots or spaces are keys.",
		func(ctx context.Context, e *Env) {
			// The only keys that others may use too: it waits, always in this order.
			a, b := e.open(ctx), e.open(ctx)
			var leases []locker.Lease
			for _, key := range []string{" ", ".", "..", "/", "//", "///", "{", "{}", "}", "*"} {
				leases = append(leases, e.acquireWait(ctx, a, key, e.long))
			}
			for _, lease := range leases {
				e.stands(ctx, a, lease)
				e.held(ctx, b, lease.Key)
			}
		}),
	must("Keys/spaces", "White space and control characters are bytes like any other, at the ends too.",
		func(ctx context.Context, e *Env) {
			p := e.key()
			e.distinct(ctx, p, " "+p, p+" ", p+"  ", p+"\t", p+"\n", p+"\r\n", p+"\x01", p+"\x7f", p+"\u00a0", p+"\u200b")
		}),
	must("Keys/braces", "Braces are bytes like any other, although Redis Cluster reads them.",
		func(ctx context.Context, e *Env) {
			p := e.key()
			e.distinct(ctx, p, "{"+p+"}", "{"+p, p+"}", "{}"+p, "}{"+p, "{{"+p+"}}", "{"+p+"}{", p+"{}", "{"+p+"}{b}", "{"+p+"}b", "}"+p+"{")
		}),
	must("Keys/patterns", "Characters that patterns, URLs, quotes or formats give a meaning to have none.",
		func(ctx context.Context, e *Env) {
			p := e.key()
			e.distinct(ctx, p, p+"*", p+"?", p+"[a]", p+"\\", p+"%2F", p+"/", p+"%", p+"#", p+"'", p+`"`, p+"$x", p+"%s", p+"~", p+"|")
		}),
	must("Keys/letter case", "Keys that differ in the case of letters differ.",
		func(ctx context.Context, e *Env) {
			p := e.key()
			e.distinct(ctx, p+"k", p+"K", p+"\u212a", p+"ß", p+"ss", p+"SS", p+"ı", p+"i", p+"İ")
		}),
	must("Keys/unicode forms", "Keys are compared byte by byte: forms of one character differ.",
		func(ctx context.Context, e *Env) {
			p := e.key()
			e.distinct(ctx, p+"\u00e9", p+"e\u0301", p+"\u212b", p+"\u00c5", p+"A\u030a", p+"ﬁ", p+"fi", p+"日本", p+"🔒", p+"\ufeff", p+"\ufffd")
		}),
	// ShedLock#145: a job with a long name silently never ran.
	must("Keys/longest", "A key may have 1024 bytes, and all of them count.",
		func(ctx context.Context, e *Env) {
			p := e.key()
			long := p + strings.Repeat("x", locker.MaxKeyLen-len(p)-1)
			wide := p + strings.Repeat("🔒", (locker.MaxKeyLen-len(p))/len("🔒"))
			e.distinct(ctx, long, long+"a", long+"b", wide, strings.Repeat("/", locker.MaxKeyLen-len(p))+p)
		}),
	must("Keys/empty", "The empty key is ErrInvalid for every method.",
		func(ctx context.Context, e *Env) { e.invalid(ctx, "") }),
	must("Keys/too long", "A key of more than 1024 bytes is ErrInvalid for every method.",
		func(ctx context.Context, e *Env) {
			e.invalid(ctx, strings.Repeat("x", locker.MaxKeyLen+1), strings.Repeat("é", locker.MaxKeyLen/2+1))
		}),
	must("Keys/NUL", "A key with a NUL byte is ErrInvalid for every method.",
		func(ctx context.Context, e *Env) {
			p := e.key()
			e.invalid(ctx, "\x00", p+"\x00", "\x00"+p, p+"\x00"+p)
		}),
	must("Keys/invalid UTF-8", "A key that is not valid UTF-8 is ErrInvalid for every method.",
		func(ctx context.Context, e *Env) {
			p := e.key()
			e.invalid(ctx, p+"\xff", p+"\xc3", "\xa9"+p, p+"\xed\xa0\x80", p+"\xc0\xaf")
		}),
}
