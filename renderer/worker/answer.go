package worker

import (
	"encoding/json"
	"fmt"
)

// Decode decodes the JSON of an answer into v. A value of a few bytes takes hundreds in memory, so an answer with more
// than most values is ErrOutput, before anything is decoded. Bytes that are not such JSON are ErrProtocol.
func Decode(answer []byte, most int, v any) error {
	if values(answer) > most {
		return fmt.Errorf("%w (more than %d values)", ErrOutput, most)
	}
	if err := json.Unmarshal(answer, v); err != nil {
		return fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	return nil
}

// values is at least the number of values in JSON: each but the first stands behind a bracket, a brace or a comma.
func values(data []byte) int {
	n, quoted := 1, false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case c == '"':
			quoted = !quoted
		case quoted && c == '\\':
			i++
		case !quoted && (c == ',' || c == '[' || c == '{'):
			n++
		}
	}
	return n
}
