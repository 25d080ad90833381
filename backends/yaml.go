package backends

import (
	"bytes"
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

func readYAML(data []byte) (element, error) {
	data = bytes.TrimPrefix(data, []byte("\ufeff")) // as some editors put before a text
	if !utf8.Valid(data) {
		return element{}, errors.New("it is not valid UTF-8")
	}
	// Names that are given twice are refused together with unknown ones.
	file, err := parser.ParseBytes(data, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		return element{}, syntaxError(err)
	}
	var body ast.Node
	for _, doc := range file.Docs {
		if doc.Body == nil {
			continue
		}
		if body != nil {
			return element{}, wrongAt(place(doc.Body), "a second document begins here; there must be one")
		}
		body = doc.Body
	}
	if body == nil {
		return element{}, errors.New("it is empty")
	}
	return fromNode(body)
}

// syntaxError returns an error of the parser without the source that it quotes. A
// message that quotes something itself is left out too.
func syntaxError(err error) error {
	message := "it cannot be parsed as YAML (the line is not shown, since a password may be in it)"
	syntax, ok := errors.AsType[yaml.Error](err)
	if !ok {
		return errors.New(message)
	}
	if reason := syntax.GetMessage(); !strings.ContainsAny(reason, `"'`) {
		message += ": " + reason
	}
	at := position{}
	if t := syntax.GetToken(); t != nil && t.Position != nil {
		at = position{t.Position.Line, t.Position.Column}
	}
	return wrongAt(at, "%s", message)
}

func place(n ast.Node) position {
	// The token of a mapping in block style is the colon of its first field.
	if m, ok := n.(*ast.MappingNode); ok && !m.IsFlowStyle && len(m.Values) > 0 {
		n = m.Values[0].Key
	}
	t := n.GetToken()
	if t == nil || t.Position == nil {
		return position{}
	}
	return position{t.Position.Line, t.Position.Column}
}

func fromNode(n ast.Node) (element, error) {
	e := element{at: place(n)}
	switch n := n.(type) {
	case *ast.StringNode:
		e.kind, e.text = text, n.Value
	case *ast.LiteralNode:
		e.kind, e.text = text, n.Value.Value
	case *ast.SequenceNode:
		e.kind = list
		for _, item := range n.Values {
			i, err := fromNode(item)
			if err != nil {
				return element{}, err
			}
			e.items = append(e.items, i)
		}
	case ast.MapNode:
		e.kind = mapping
		for it := n.MapRange(); it.Next(); {
			name, ok := it.Key().(*ast.StringNode)
			if !ok {
				return element{}, wrongAt(place(it.Key()), "the name of a field must be a plain text")
			}
			value, err := fromNode(it.Value())
			if err != nil {
				return element{}, err
			}
			e.fields = append(e.fields, field{name.Value, place(name), value})
		}
	case *ast.AnchorNode, *ast.AliasNode, *ast.TagNode, *ast.DirectiveNode:
		return element{}, wrongAt(e.at, "anchors, aliases, tags and directives are not taken: put a text that begins with & * ! or %% into quotes")
	case *ast.NullNode:
		e.kind = "nothing"
	case *ast.BoolNode:
		e.kind = "a truth value"
	default:
		e.kind = "a number"
	}
	return e, nil
}
