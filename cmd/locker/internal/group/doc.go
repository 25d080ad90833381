// Package group runs a command in a process group of its own, so that it can be
// signalled and ended with all that it started, and sees to it that the group does not
// outlive this process, however that ends.
//
// A process that left the group (a daemon, by setsid) is out of reach. The package
// works on Unix systems only.
package group
