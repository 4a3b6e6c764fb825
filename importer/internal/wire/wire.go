// Package wire encodes what crosses the pipe to worker processes and what is kept between runs, as CBOR (RFC 8949).
// Decoding expects hostile bytes: it takes memory in proportion to their number.
package wire

import (
	"reflect"

	"github.com/fxamacker/cbor/v2"
)

// Limits of what is decoded.
const (
	MaxElements = 1 << 20 // of one list
	MaxPairs    = 1 << 19 // of one map
	maxLevels   = 256     // more than manifest.DefaultBudget admits in an object
)

// Marshal encodes v. Fields have the names that encoding/json gives them.
func Marshal(v any) ([]byte, error) { return cbor.Marshal(v) }

// Unmarshal decodes into v what Marshal wrote. Whole numbers in an any become int64, mappings map[string]any. It
// returns an error for bytes that Marshal does not write, for fields that v does not have, and for a whole number in an
// any that an int64 does not hold.
func Unmarshal(data []byte, v any) error {
	mode, err := cbor.DecOptions{
		DupMapKey: cbor.DupMapKeyEnforcedAPF, MaxArrayElements: MaxElements, MaxMapPairs: MaxPairs,
		MaxNestedLevels: maxLevels,
		IndefLength:     cbor.IndefLengthForbidden, TagsMd: cbor.TagsForbidden,
		ExtraReturnErrors: cbor.ExtraDecErrorUnknownField,
		IntDec:            cbor.IntDecConvertSignedOrFail,
		DefaultMapType:    reflect.TypeFor[map[string]any](),
		UTF8:              cbor.UTF8DecodeInvalid, // Git accepts any bytes as a path
	}.DecMode()
	if err != nil {
		return err
	}
	return mode.Unmarshal(data, v)
}
