-- The words of a meeting's title, each behind the end of its account's id: those of one account stand together in the index,
-- and a beginning of a word is a range in it. No extension is needed. The cost keeps the planner from working the words out
-- for a whole table; a short pending list keeps both a write that merges it and a search that reads it short.
CREATE FUNCTION title_words(account_id uuid, title text) RETURNS tsvector
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE COST 1000 AS $$
BEGIN
    RETURN array_to_tsvector(array_remove(regexp_split_to_array(
        regexp_replace(lower(title), '[[:alnum:]]+', substr(account_id::text, 25) || '\&', 'g'),
        '[^[:alnum:]]+'), ''));
END $$;
