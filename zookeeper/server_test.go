package zookeeper_test

import (
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/locker-go/locker/internal/testbed"
	"github.com/locker-go/locker/zookeeper"
)

// bed is what a test gets of a server that it shares with others: a namespace, and a
// proxy of its own.
type bed struct {
	server    *testbed.Server
	proxy     *testbed.Proxy
	namespace string
	client    *zk.Conn // of the driver, not through the proxy
}

// shared are the tests that share a server.
var shared = map[string]func(*testing.T, *bed){
	"Token":                        testToken,
	"BaseMoves":                    testBaseMoves,
	"RaiseReachesWaiters":          testRaiseReachesWaiters,
	"ClockOfAnotherIsFast":         testClockOfAnotherIsFast,
	"SpoiledBase":                  testSpoiledBase,
	"Order":                        testOrder,
	"OrderInOneClient":             testOrderInOneClient,
	"CancelledWaiter":              testCancelledWaiter,
	"ManyCancelledWaiters":         testManyCancelledWaiters,
	"PlaceLost":                    testPlaceLost,
	"PredecessorVanishes":          testPredecessorVanishes,
	"ConnectionLostDuringAWait":    testConnectionLostDuringAWait,
	"LostReplyOfAWaiter":           testLostReplyOfAWaiter,
	"LateRequest":                  testLateRequest,
	"ForeignChildren":              testForeignChildren,
	"NumbersOverflow":              testNumbersOverflow,
	"HolderVanishes":               testHolderVanishes,
	"DirectoriesAreRemoved":        testDirectoriesAreRemoved,
	"DirectoriesOfTheDead":         testDirectoriesOfTheDead,
	"SilentServer":                 testSilentServer,
	"CloseOfASilentServer":         testCloseOfASilentServer,
	"BringYourOwn":                 testBringYourOwn,
	"CloseEndsWaiting":             testCloseEndsWaiting,
	"TwoNamespaces":                testTwoNamespaces,
	"LeaseIsShorterThanTheSession": testLeaseIsShorterThanTheSession,
	"SessionExpires":               testSessionExpires,
	"SessionExpiresDuringAWait":    testSessionExpiresDuringAWait,
	"Users":                        testUsers,
	"Chroot":                       testChroot,
	"SecretsAreNotStored":          testSecretsAreNotStored,
	"TogetherWithTheDriver":        testTogetherWithTheDriver,
	"ManyAtOnce":                   testManyAtOnce,
	"ReleaseAfterALostReply":       testReleaseAfterALostReply,
	"RenewalIsAWrite":              testRenewalIsAWrite,
}

func TestOnASharedServer(t *testing.T) {
	t.Parallel()
	server := testbed.ZooKeeper(t, longSessions)
	newBed := func(t *testing.T, namespace string) *bed {
		return &bed{server, testbed.NewProxy(t, server.Addr(), testbed.ZooKeeperWire), namespace, driver(t, time.Minute, nil, server.Addr())}
	}
	t.Run("Costs", func(t *testing.T) { testCosts(t, newBed(t, "Costs")) }) // alone: it counts what the server does
	for name, test := range shared {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, newBed(t, name))
		})
	}
}

// url returns a URL of the server, with more parameters that begin with &.
func (b *bed) url(parameters string) string { return b.at(b.server.Addr(), parameters) }

// far returns a URL of the server through the proxy.
func (b *bed) far(parameters string) string { return b.at(b.proxy.Addr(), parameters) }

func (b *bed) at(addr, parameters string) string {
	return "zookeeper://" + addr + "?session_timeout=60s&namespace=" + b.namespace + parameters
}

func (b *bed) open(t *testing.T) *zookeeper.Locker { t.Helper(); return open(t, b.url("")) }

func (b *bed) openFar(t *testing.T) *zookeeper.Locker { t.Helper(); return open(t, b.far("")) }

// queue returns the path of a key's queue.
func (b *bed) queue(key string) string { return "/" + b.namespace + "/queue/" + key }

// count returns how many requests of each name went through the proxy while fn ran, but
// for pings.
func (b *bed) count(fn func()) map[string]int {
	before := len(b.proxy.Requests())
	fn()
	n := make(map[string]int)
	for _, name := range b.proxy.Requests()[before:] {
		if name != "ping" {
			n[name]++
		}
	}
	return n
}
