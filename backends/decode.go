package backends

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/locker-go/locker"
)

// maxConfigSize bounds what is read as a configuration.
const maxConfigSize = 1 << 16

// LoadConfig reads a configuration from a file: JSON if its name ends with .json, else
// YAML. The file may have 64 KiB. Errors tell the place in the file, and are all told
// at once; those of its content are ErrInvalid, and none shows a password.
func LoadConfig(path string) (Config, error) {
	if strings.Contains(path, "://") {
		return Config{}, invalid("the name of the configuration file is a URL; a URL alone goes into LOCKER_URL")
	}
	data, err := readFile(path)
	if err != nil {
		return Config{}, fmt.Errorf("%w: configuration: %w", locker.ErrInvalid, err)
	}
	read := readYAML
	if strings.EqualFold(filepath.Ext(path), ".json") {
		read = readJSON
	}
	d := decoder{file: path, places: make(map[string]position)}
	return d.decode(read(data))
}

func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, maxConfigSize+1))
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	if len(data) > maxConfigSize {
		return nil, fmt.Errorf("%s is longer than %d bytes", path, maxConfigSize)
	}
	return data, nil
}

// UnmarshalJSON decodes strictly: see [Config].
func (c *Config) UnmarshalJSON(data []byte) error {
	d := decoder{places: make(map[string]position)}
	decoded, err := d.decode(readJSON(data))
	if err != nil {
		return err
	}
	*c = decoded
	return nil
}

// UnmarshalYAML decodes strictly what a YAML package has parsed: see [Config].
func (c *Config) UnmarshalYAML(unmarshal func(any) error) error {
	var parsed any
	if err := unmarshal(&parsed); err != nil {
		return err
	}
	data, err := json.Marshal(parsed)
	if err != nil {
		return invalid("configuration: it has something that JSON does not have, such as a number for the name of a field")
	}
	return c.UnmarshalJSON(data)
}

// decoder makes a Config of a document, and collects what is wrong.
type decoder struct {
	file   string // empty if places mean nothing to the reader
	places map[string]position
	errs   []error
}

func (d *decoder) decode(root element, err error) (Config, error) {
	if err != nil {
		at := position{}
		if e, ok := errors.AsType[*documentError](err); ok {
			at = e.at
		}
		d.fail(at, "", fmt.Errorf("%w: %w", locker.ErrInvalid, err))
		return Config{}, errors.Join(d.errs...)
	}
	var c Config
	d.fields(root, "", map[string]func(element, string){
		"url":       d.text(&c.URL),
		"namespace": d.namespace(&c.Namespace),
		"ttl":       d.duration(&c.TTL, locker.ValidateTTL),
		"wait":      d.duration(&c.Wait, checkWait),
		"routes":    d.routes(&c.Routes),
	})
	if len(d.errs) == 0 {
		for _, p := range c.problems() {
			d.fail(d.place(p.field), p.field, p.err)
		}
	}
	return c, errors.Join(d.errs...)
}

// place returns where a field stands, or if it is missing what it is missing in.
func (d *decoder) place(field string) position {
	for {
		if at, ok := d.places[field]; ok || field == "" {
			return at
		}
		field = field[:max(strings.LastIndexByte(field, '.'), 0)]
	}
}

func (d *decoder) fail(at position, field string, err error) {
	if field != "" {
		err = fmt.Errorf("%s: %w", field, err)
	}
	switch {
	case d.file == "":
		err = fmt.Errorf("configuration: %w", err)
	case at.line == 0:
		err = fmt.Errorf("%s: %w", d.file, err)
	default:
		err = fmt.Errorf("%s:%d:%d: %w", d.file, at.line, at.column, err)
	}
	d.errs = append(d.errs, err)
}

// is reports whether e is of the kind that a field takes, and else says so.
func (d *decoder) is(e element, field, kind string) bool {
	if e.kind != kind {
		d.fail(e.at, field, invalid("it must be %s, not %s", kind, e.kind))
	}
	return e.kind == kind
}

// fields calls for each field of a mapping the function of its name.
func (d *decoder) fields(e element, path string, known map[string]func(element, string)) {
	d.places[path] = e.at
	if !d.is(e, path, mapping) {
		return
	}
	prefix := ""
	if path != "" {
		prefix = path + "."
	}
	for _, f := range e.fields {
		read := known[f.name]
		if read == nil {
			d.fail(f.at, path, invalid("unknown field %s: known are %s", showName(f.name), names(known)))
			continue
		}
		name := prefix + f.name
		if _, again := d.places[name]; again {
			d.fail(f.at, name, invalid("it is given twice"))
			continue
		}
		d.places[name] = f.value.at
		read(f.value, name)
	}
}

func names(known map[string]func(element, string)) string {
	var all []string
	for name := range known {
		all = append(all, name)
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

var identifier = regexp.MustCompile(`^[A-Za-z][A-Za-z_-]{0,30}$`)

// showName returns the name of an unknown field, unless it may be a piece of
// something else, such as of a URL that was not put into quotes.
func showName(name string) string {
	if !identifier.MatchString(name) {
		return "(its name is not shown)"
	}
	return name
}

func (d *decoder) text(to *string) func(element, string) {
	return func(e element, field string) {
		if d.is(e, field, text) {
			*to = e.text
		}
	}
}

func (d *decoder) namespace(to *string) func(element, string) {
	return func(e element, field string) {
		if !d.is(e, field, text) {
			return
		}
		if e.text == "" {
			d.fail(e.at, field, invalid("it is empty: leave it out, or for raw keys on Redis write a URL that ends with ?namespace="))
		}
		*to = e.text
	}
}

func (d *decoder) duration(to *time.Duration, check func(time.Duration) error) func(element, string) {
	return func(e element, field string) {
		if e.kind != text {
			d.fail(e.at, field, invalid("it must be a duration with a unit, such as 300ms, 30s or 2h, not %s", e.kind))
			return
		}
		v, err := time.ParseDuration(e.text)
		if err != nil {
			d.fail(e.at, field, invalid("it must be a duration with a unit, such as 300ms, 30s or 2h"))
			return
		}
		if err := check(v); err != nil { // here too, since zero is no default when it is written
			d.fail(e.at, field, err)
			return
		}
		*to = v
	}
}

func (d *decoder) routes(to *[]Route) func(element, string) {
	return func(e element, field string) {
		if !d.is(e, field, list) {
			return
		}
		for i, item := range e.items {
			var r Route
			d.fields(item, fmt.Sprintf("%s[%d]", field, i), map[string]func(element, string){
				"keys":      d.text(&r.Keys),
				"url":       d.text(&r.URL),
				"namespace": d.namespace(&r.Namespace),
			})
			*to = append(*to, r)
		}
	}
}
