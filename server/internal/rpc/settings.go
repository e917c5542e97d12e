package rpc

import (
	memoryv1 "github.com/seed-7f2870e1/memoryd/gen/memoryd/v1"
	"github.com/seed-7f2870e1/memoryd/server/memory"
)

// fromSettings takes over the settings of a request. Package memory checks them.
func fromSettings(from *memoryv1.NamespaceSettings) memory.Settings {
	if from == nil {
		return memory.Settings{}
	}
	return memory.Settings{
		CreateOnExisting: fromCreateOnExisting(from.CreateOnExisting),
		ViewMaxChars:     from.ViewMaxChars,
		MaxFileBytes:     from.MaxFileBytes,
	}
}

// fromCreateOnExisting turns a value that is none of the enum into one that package memory refuses.
func fromCreateOnExisting(from *memoryv1.CreateOnExisting) *memory.CreateOnExisting {
	if from == nil {
		return nil
	}
	var to memory.CreateOnExisting
	switch *from {
	case memoryv1.CreateOnExisting_CREATE_ON_EXISTING_ERROR:
		to = memory.CreateError
	case memoryv1.CreateOnExisting_CREATE_ON_EXISTING_OVERWRITE:
		to = memory.CreateOverwrite
	case memoryv1.CreateOnExisting_CREATE_ON_EXISTING_UNSPECIFIED:
	}
	return &to
}

func toCreateOnExisting(from *memory.CreateOnExisting) *memoryv1.CreateOnExisting {
	if from == nil {
		return nil
	}
	if *from == memory.CreateOverwrite {
		return memoryv1.CreateOnExisting_CREATE_ON_EXISTING_OVERWRITE.Enum()
	}
	return memoryv1.CreateOnExisting_CREATE_ON_EXISTING_ERROR.Enum()
}
