// Package zookeeper keeps locks in ZooKeeper, as ephemeral nodes, with a queue per key.
package zookeeper
