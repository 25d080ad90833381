package backends

import "fmt"

// element is a piece of a YAML or JSON document. Both are read into it, so that both
// are taken equally strictly, and so that no error quotes the document, in which
// passwords may stand.
type element struct {
	at     position
	kind   string    // text, list, mapping, or the name of something that no field takes
	text   string    // of a text
	items  []element // of a list
	fields []field   // of a mapping, in their order
}

type field struct {
	name  string
	at    position
	value element
}

const (
	text    = "a text"
	list    = "a list"
	mapping = "a mapping"
)

// position is a place in a document, counted from 1; the zero value is unknown.
type position struct{ line, column int }

// documentError says what is wrong with a document, and where.
type documentError struct {
	at      position
	message string
}

func (e *documentError) Error() string { return e.message }

func wrongAt(at position, format string, args ...any) error {
	return &documentError{at, fmt.Sprintf(format, args...)}
}
