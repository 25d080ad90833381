module github.com/locker-go/locker

go 1.26.0

require (
	github.com/cenkalti/backoff/v5 v5.0.3 // indirect
	golang.org/x/sys v0.50.0 // indirect
)
