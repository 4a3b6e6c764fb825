package cli

import (
	"bytes"
	"encoding/json"
	"io"

	"sigs.k8s.io/yaml"
)

// structured reports whether --output asks for JSON or YAML.
func (c *common) structured() bool { return c.output == "json" || c.output == "yaml" }

// encode writes a value in the format of --output. Both formats have the keys of the value's JSON form.
func (c *common) encode(w io.Writer, v any) error {
	return c.document(w, func(w io.Writer) error { return printJSON(w, v) })
}

// document writes the output of writeJSON in the format of --output.
func (c *common) document(w io.Writer, writeJSON func(io.Writer) error) error {
	if c.output != "yaml" {
		return writeJSON(w)
	}
	var buffer bytes.Buffer
	if err := writeJSON(&buffer); err != nil {
		return err
	}
	data, err := yaml.JSONToYAML(buffer.Bytes())
	if err != nil {
		return err
	}
	_, err = w.Write(data)
	return err
}

func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}
