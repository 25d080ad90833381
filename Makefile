# What there is to run on this code. "make test" is what decides.

GO ?= go
BIN := $(CURDIR)/bin
STATICCHECK := $(BIN)/staticcheck
# Modules of their own, so that what they need stays out of the product's go.mod.
NESTED := $(patsubst %/go.mod,%,$(wildcard */go.mod))

.DEFAULT_GOAL := help

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "%-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: test
test: servers lint ## everything that must pass: set-up, lint, all tests with the race detector
	LOCKER_TEST_SERVERS=require $(GO) test -race -timeout 15m ./...
	@for m in $(NESTED); do (cd $$m && echo "in $$m" && LOCKER_TEST_SERVERS=require $(GO) test -timeout 15m ./...) || exit 1; done

.PHONY: lint
lint: $(STATICCHECK) ## gofmt, go vet, staticcheck, and a build for the other systems
	@bad=$$(gofmt -l .); if [ -n "$$bad" ]; then echo "gofmt would change:"; echo "$$bad"; exit 1; fi
	$(GO) vet ./...
	$(STATICCHECK) ./...
	@for m in $(NESTED); do (cd $$m && echo "in $$m" && $(GO) vet ./...) || exit 1; done
	GOOS=darwin $(GO) vet ./...
	GOOS=windows $(GO) vet ./...

.PHONY: bench
bench: servers ## the benchmarks: ratios to bare requests and to other libraries
	$(GO) test -run '^$$' -bench . -benchtime 1x ./...
	@for m in $(NESTED); do (cd $$m && echo "in $$m" && $(GO) test -run '^$$' -bench . -benchtime 1x ./...) || exit 1; done

.PHONY: servers
servers: ## install the servers that the tests start, where they are missing
	@./tools/servers

.PHONY: build
build: ## build the command into bin/
	$(GO) build -o $(BIN)/locker ./cmd/locker

$(STATICCHECK): tools/go.mod tools/go.sum
	cd tools && $(GO) build -o $@ honnef.co/go/tools/cmd/staticcheck

.PHONY: clean
clean: ## remove what was built
	rm -rf $(BIN)
