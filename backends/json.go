package backends

import (
	"bytes"
	"encoding/json"
	"errors"
	"unicode/utf8"
)

func readJSON(data []byte) (element, error) {
	if !utf8.Valid(data) {
		return element{}, errors.New("it is not valid UTF-8")
	}
	// Token, below, takes some things that are not JSON.
	if err := json.Unmarshal(data, new(json.RawMessage)); err != nil {
		syntax, ok := errors.AsType[*json.SyntaxError](err)
		if !ok {
			return element{}, errors.New("it cannot be parsed as JSON")
		}
		return element{}, wrongAt(offset(data, max(syntax.Offset-1, 0)), "it cannot be parsed as JSON")
	}
	d := &jsonReader{data: data, tokens: json.NewDecoder(bytes.NewReader(data))}
	d.tokens.UseNumber()
	return d.element()
}

// offset returns the position of a byte.
func offset(data []byte, n int64) position {
	before := data[:min(n, int64(len(data)))]
	line := bytes.LastIndexByte(before, '\n') + 1
	return position{bytes.Count(before, []byte("\n")) + 1, utf8.RuneCount(before[line:]) + 1}
}

// jsonReader reads JSON that is known to be valid.
type jsonReader struct {
	data   []byte
	tokens *json.Decoder
}

// next returns the next token and where it begins.
func (r *jsonReader) next() (json.Token, position, error) {
	start := r.tokens.InputOffset()
	start += int64(len(r.data[start:]) - len(bytes.TrimLeft(r.data[start:], " \t\r\n:,")))
	t, err := r.tokens.Token()
	return t, offset(r.data, start), err
}

func (r *jsonReader) element() (element, error) {
	t, at, err := r.next()
	if err != nil {
		return element{}, err
	}
	e := element{at: at}
	switch t := t.(type) {
	case json.Delim:
		if t == '[' {
			e.kind = list
			err = r.items(&e)
		} else {
			e.kind = mapping
			err = r.fields(&e)
		}
		if err == nil {
			_, err = r.tokens.Token() // the closing bracket
		}
	case string:
		e.kind, e.text = text, t
	case bool:
		e.kind = "a truth value"
	case nil:
		e.kind = "null"
	default:
		e.kind = "a number"
	}
	return e, err
}

func (r *jsonReader) items(e *element) error {
	for r.tokens.More() {
		item, err := r.element()
		if err != nil {
			return err
		}
		e.items = append(e.items, item)
	}
	return nil
}

func (r *jsonReader) fields(e *element) error {
	for r.tokens.More() {
		name, at, err := r.next()
		if err != nil {
			return err
		}
		value, err := r.element()
		if err != nil {
			return err
		}
		e.fields = append(e.fields, field{name.(string), at, value})
	}
	return nil
}
