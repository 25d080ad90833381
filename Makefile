# What there is to run on this code. "make test" is what decides.

GO ?= go
BIN := $(CURDIR)/bin
STATICCHECK := $(BIN)/staticcheck
TYPECHECK := $(BIN)/typecheck
ETCD := $(BIN)/etcd
# The product, and the modules of their own that keep what only they need out of its
# go.mod.
MODULES := . $(patsubst %/go.mod,%,$(wildcard */go.mod))
in-modules = @set -e; for m in $(MODULES); do (cd "$$m"; set -x; $(1)); done

.DEFAULT_GOAL := help

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "%-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: test
test: servers lint ## everything that must pass: set-up, lint, all tests, those of the product with the race detector, and the simulation of Redlock without it
	LOCKER_TEST_SERVERS=require $(GO) test -race -timeout 15m ./...
	$(GO) test -run 'TestSimulation$$' ./redlock
	cd bench && LOCKER_TEST_SERVERS=require $(GO) test -timeout 15m ./...

.PHONY: lint
lint: $(STATICCHECK) $(TYPECHECK) ## gofmt, go vet, staticcheck, and whether all compiles for macOS and Windows
	@bad=$$(gofmt -l .); if [ -n "$$bad" ]; then echo "gofmt would change:"; echo "$$bad"; exit 1; fi
	$(call in-modules,$(GO) vet ./...; $(STATICCHECK) ./...)
	$(TYPECHECK) darwin windows

.PHONY: bench
bench: servers ## the benchmarks: ratios to bare requests and to other libraries
	$(call in-modules,LOCKER_TEST_SERVERS=require $(GO) test -run '^$$' -bench . -benchtime 1x ./...)

.PHONY: model
model: ## check the model of Redlock with spin: about 90 s, 1 GiB
	./tools/model

.PHONY: servers
servers: $(ETCD) ## install or build the servers that the tests start, where they are missing
	@./tools/servers

.PHONY: build
build: ## build the command into bin/
	$(GO) build -o $(BIN)/locker ./cmd/locker

# Go leaves a program alone, and its time, that would come out the same.
$(STATICCHECK): tools/go.mod tools/go.sum
	cd tools && $(GO) build -o $@ honnef.co/go/tools/cmd/staticcheck
	@touch $@

$(TYPECHECK): tools/go.mod tools/go.sum tools/typecheck/main.go
	cd tools && $(GO) build -o $@ ./typecheck
	@touch $@

$(ETCD): tools/go.mod tools/go.sum
	cd tools && $(GO) build -o $@ go.etcd.io/etcd/server/v3
	@touch $@

.PHONY: clean
clean: ## remove what was built
	rm -rf $(BIN)
