package backends_test

import (
	"os"
	"strings"
	"testing"
)

// The configuration that the README shows is one.
func TestReadmeConfig(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(readme), "```yaml\n")
	content, _, _ := strings.Cut(rest, "```\n")
	c, err := load(t, "readme.yaml", content)
	if err != nil || len(c.Routes) == 0 {
		t.Errorf("got %v, %v from\n%s", c, err, content)
	}
}

// What the README shows of a program is part of an example, and so compiles.
func TestReadme(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	example, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(readme), "```go\n")
	code, _, found := strings.Cut(rest, "```\n")
	if !found || !strings.Contains(string(example), code) {
		t.Errorf("the first Go code of the README is not in example_test.go:\n%s", code)
	}
}
